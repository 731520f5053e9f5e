"""Names of the metrics, and how many neighbours a gallery has room for."""

from collections.abc import Sequence

from likewise.wording import count_of, listed

RETRIEVAL_METRICS = ("R@K", "RP", "MAP@R", "mAP")
CLUSTERING_METRICS = ("NMI", "NMI_geometric", "AMI")
METRICS = (*RETRIEVAL_METRICS, *CLUSTERING_METRICS)
DEFAULT_METRICS = (*RETRIEVAL_METRICS, "NMI", "AMI")


def check_metrics(metrics: Sequence[str], known: Sequence[str] = METRICS) -> None:
    unknown = [name for name in metrics if name not in known]
    if isinstance(metrics, str) or unknown or not metrics:
        raise ValueError(f"metrics are {metrics!r}: expected some of {', '.join(known)}")


def fitting_ks(ks: Sequence[int], num_candidates: int, *, exclude_self: bool) -> tuple[list[int], tuple[str, ...]]:
    """The K that do not ask for more neighbours than there are, rising, and a note that says which K are left out and why."""
    if len(ks) == 0:
        raise ValueError("ks are empty: expected at least one K, or metrics without 'R@K'")
    for k in ks:
        if isinstance(k, bool) or not isinstance(k, int) or k < 1:
            raise ValueError(f"ks hold {k!r}: expected whole numbers, 1 or more")
    fitting = sorted({k for k in ks if k <= num_candidates})
    too_large = sorted({k for k in ks if k > num_candidates})
    if not too_large:
        return fitting, ()
    names = listed([f"R@{k}" for k in too_large])
    besides = " besides the query" if exclude_self else ""
    num_items = count_of(max(num_candidates, 0), "item", "items")
    return fitting, (f"{names} {'is' if len(too_large) == 1 else 'are'} left out: the gallery has only {num_items}{besides}",)


def check_k(k: int, num_queries: int, num_items: int, exclude_self: bool) -> None:
    """Refuses to look for more neighbours than there are, and to leave out queries that are not in the gallery."""
    if exclude_self and num_queries > num_items:
        raise ValueError(
            f"exclude_self with {num_queries} queries and {num_items} gallery items: expected query i to be gallery row i; "
            "pass the queries as gallery"
        )
    if isinstance(k, bool) or not isinstance(k, int) or k < 1:
        raise ValueError(f"k is {k!r}: expected a whole number of neighbours, 1 or more")
    available = num_items - int(exclude_self)
    if k > available:
        raise ValueError(
            f"k is {k} but the gallery has only {available} items{' besides the query itself' if exclude_self else ''}: "
            f"ask for at most {available} neighbours or pass a larger gallery"
        )
