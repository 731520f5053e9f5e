"""Methods as data: what is compared. One TOML file a method; `METHODS` names them."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, get_type_hints

from likewise.checks import known_name
from likewise.configuration import Choice, Named, Uniform, converted, from_table, with_settings
from likewise.formats.settings_files import naming, read_toml
from likewise.limits import require_within
from likewise.losses import LOSSES, AnyLoss, make_loss
from likewise.methods.loss_objects import PAPER as OWN
from likewise.methods.loss_objects import named_loss, words_of
from likewise.mining import MINERS, Miner, make_miner
from likewise.own_code import is_address, resolved_address
from likewise.registries import checked_name, is_here, registered
from likewise.samplers import SAMPLERS, BatchSampler
from likewise.samplers.sampler import FewClasses, Labels

FOLDER = Path(__file__).parent
METHODS: tuple[str, ...] = tuple(sorted(path.stem for path in FOLDER.glob("*.toml")))

HeadKind = Literal["linear", "layer_norm", "mlp", "rll", "none"]
Level = Literal["low", "mid", "high"]

REGISTRIES: dict[str, Mapping[str, Any]] = {"loss": LOSSES, "mining": MINERS, "sampler": SAMPLERS}
RATE, HEAD_RATE = "rates.base", "rates.head"  # tuned over the same values for every method, so that no file says which


@dataclass(frozen=True)
class Head:
    """What stands on the backbone. `dim` and more than one level make the method's dimension its own: it is then listed apart."""

    kind: HeadKind = "linear"
    levels: tuple[Level, ...] = ("high",)
    dim: int | None = None  # of one level of one member; None: the protocol's
    binary: bool = False
    learners: int = 0  # attention masks on the backbone's low tap, each with its share of the dimensions; 0: none
    parts: tuple[int, ...] = ()  # proportions of the parts of a level's embedding, each with a length of its own; empty: it is one


@dataclass(frozen=True)
class Rates:
    """Learning rates as multiples of the protocol's."""

    base: float = 1.0  # of everything
    head: float = 10.0  # new layers
    proxies: float = 100.0
    loss: float = 1.0  # the loss's own parameters, such as margin's boundary


@dataclass(frozen=True)
class Ensemble:
    """DREML: `members` networks, each trained on its own random partition of the classes into `meta_classes`."""

    members: int = 1
    meta_classes: int = 0  # 0: the classes themselves


@dataclass(frozen=True)
class Method:
    """A way to learn an embedding: loss, mining, sampler, head, learning-rate multiples, and what tuning may try."""

    name: str
    title: str
    paper: str
    summary: str  # one line
    loss: Named
    mining: Named | None = None
    sampler: Named = Named("group", {"num_images": 4})  # noqa: RUF009  # Named is frozen
    normalize: bool | None = None  # embeddings to length 1; None: as the loss is defined
    norm: float | None = None  # embeddings to this length instead
    memory: int = 0  # embeddings of earlier batches that anchors also meet (XBM)
    memory_warm_up: float = 0.1  # share of the steps before the memory is used
    head: Head = Head()
    rates: Rates = Rates()
    ensemble: Ensemble = Ensemble()
    head_only: float = 0.0  # share of the steps, at first, in which only new layers learn; 1: nothing else ever does
    search: dict[str, Uniform | Choice] = field(default_factory=dict)  # dotted name -> what tuning may try, beside the rates
    grid: dict[str, tuple[Any, ...]] = field(default_factory=dict)  # dotted name -> values of a grid search: every combination is tried
    published: dict[str, dict[str, float]] = field(default_factory=dict)  # protocol -> score -> percent
    under: dict[str, dict[str, Any]] = field(default_factory=dict)  # protocol -> dotted name -> value: the paper's own settings there

    def __post_init__(self) -> None:
        for table in REGISTRIES:
            named = getattr(self, table)
            if named is not None:
                named = _checked(table, named)
                object.__setattr__(self, table, named)  # with the digest of code of the user's
                if is_here(named.name):
                    accepted = _accepted(table, named)
                    whose = f"the {named.name} sampler" if table == "sampler" else named.name
                    for name in named.settings:
                        known_name(f"setting of {whose}", name, accepted)
        for name in (RATE, HEAD_RATE):
            for table in ("search", "grid"):
                if name in getattr(self, table):
                    raise ValueError(f"{self.name}: {name!r} in [{table}]: every method tries the same values of it; leave it out")
        if self.norm is not None and (self.norm <= 0 or self.normalize is True):
            raise ValueError(f"{self.name}: norm={self.norm} must be above 0, and excludes normalize=true (length 1)")
        self._check_numbers()
        if not 0 <= self.head_only <= 1:
            raise ValueError(
                f"{self.name}: head_only={self.head_only}: expected a share of the steps from 0 to 1, where only the head learns"
            )

    def _check_numbers(self) -> None:
        """What is too small, or more than `likewise.limits` allows."""
        least: dict[str, tuple[float | None, float]] = {
            **{f"rates.{entry.name}": (getattr(self.rates, entry.name), 0) for entry in fields(Rates)},
            "ensemble.members": (self.ensemble.members, 1),
            "ensemble.meta_classes": (self.ensemble.meta_classes, 0),
            "head.dim": (self.head.dim, 1),
            "head.learners": (self.head.learners, 0),
            "memory": (self.memory, 0),
        }
        for name, (value, smallest) in least.items():
            if value is not None and value < smallest:
                raise ValueError(f"{self.name}: {name}={value:g}: expected at least {smallest:g}")
        if self.ensemble.meta_classes == 1:
            raise ValueError(f"{self.name}: ensemble.meta_classes=1: expected at least 2 to be told apart, or 0 for the classes themselves")
        if any(part < 1 for part in self.head.parts):
            raise ValueError(f"{self.name}: head.parts={list(self.head.parts)}: expected proportions of at least 1")
        if not 0 <= self.memory_warm_up <= 1:
            raise ValueError(f"{self.name}: memory_warm_up={self.memory_warm_up:g}: expected a share of the steps from 0 to 1")
        require_within("members", self.ensemble.members, f"{self.name}: ensemble.members is")
        require_within("classes", self.ensemble.meta_classes, f"{self.name}: ensemble.meta_classes is")
        require_within("memory", self.memory, f"{self.name}: memory is")
        require_within("members", self.head.learners, f"{self.name}: head.learners is")
        require_within("dim", self.head.dim or 0, f"{self.name}: head.dim is")

    def for_protocol(self, protocol: str) -> Method:
        """The method with its paper's own settings under this protocol, where it has any."""
        changed = with_settings(self, self.under.get(protocol, {}))
        search = {name: values for name, values in self.search.items() if has_setting(changed, name)}  # another sampler has other settings
        grid = {name: values for name, values in self.grid.items() if has_setting(changed, name)}
        return replace(changed, under={}, search=search, grid=grid)

    @property
    def names(self) -> tuple[str, ...]:
        """Of the loss, the miner and the sampler: out of a registry, or addresses of the user's code."""
        return tuple(named.name for table in REGISTRIES if (named := getattr(self, table)) is not None)

    @property
    def dotted_names(self) -> tuple[str, ...]:
        """Every setting that stands behind a dot: of head, rates and ensemble, and of the loss, miner and sampler that it has."""
        tables = {name: [entry.name for entry in fields(getattr(self, name))] for name in ("head", "rates", "ensemble")}
        tables |= {table: [] if getattr(self, table) is None else list(_accepted(table, getattr(self, table))) for table in REGISTRIES}
        return tuple(f"{table}.{name}" for table, names in tables.items() for name in names)

    def make_loss(self, *, num_classes: int | None = None, dim: int | None = None) -> AnyLoss:
        """The loss with the method's settings; `num_classes` and `dim` for one that has parameters of each class or dimension."""
        settings = {name: tuple(value) if isinstance(value, list) else value for name, value in self.loss.settings.items()}
        parts = self.head.parts * len(self.head.levels) * max(1, self.head.learners) or None
        return make_loss(self.loss.name, settings, num_classes=num_classes, dim=dim, parts=parts)

    def make_miner(self) -> Miner:
        """The miner with the method's settings; one that keeps all pairs where the method has none."""
        return make_miner(None) if self.mining is None else make_miner(self.mining.name, self.mining.settings)

    def make_sampler(
        self,
        labels: Labels,
        batch: int,
        *,
        few_classes: FewClasses = "error",
        seed: int = 0,
        rank: int = 0,
        num_ranks: int = 1,
    ) -> BatchSampler:
        """The sampler with the method's settings, for batches of `batch` items."""
        try:
            settings = self.sampler.settings | {"seed": seed, "rank": rank, "num_ranks": num_ranks}
            return self.sampler_kind.for_batch(labels, batch, settings, few_classes=few_classes)
        except ValueError as fault:
            raise ValueError(f"{self.name}: {fault}") from fault

    @property
    def sampler_kind(self) -> type[BatchSampler]:
        return registered("sampler", self.sampler.name, SAMPLERS)

    def with_fewer_images(self, batch: int) -> Method | None:
        """The method with so few images of a class that a batch of `batch` holds two classes; None where no fewer would do."""
        settings = self.sampler_kind.with_fewer_images(self.sampler.settings, batch)
        if settings is None:
            return None
        loss = self.loss
        if "num_support" in loss.settings:  # counts the same images
            loss = replace(loss, settings=loss.settings | {"num_support": settings["num_support"]})
        return replace(self, loss=loss, sampler=replace(self.sampler, settings=settings))


def load_method(name: str | Path | Method | AnyLoss) -> Method:
    """The method of this name, or of this .toml file; or what a loss object is with everything else as methods have it."""
    if isinstance(name, Method):
        return name
    if not isinstance(name, str | Path):
        of_loss, title, summary = words_of(name)
        return Method(of_loss, title, OWN, summary or "a loss of your own", named_loss(name))
    path = Path(name)
    if path.suffix == ".toml":
        if not path.is_file():
            raise ValueError(f"there is no method file {path}: give the path of a .toml file or a name that `likewise methods` lists")
        return _read(path)
    return _of_package(known_name("method", str(name), METHODS))


def at(method: Method, name: str) -> Any:
    """What stands at a dotted name; a setting of the loss that the file leaves out has the loss's default."""
    value: Any = method
    parts = name.split(".")
    for part in parts:
        if part == "name" and parts[0] in REGISTRIES:
            value = None if value is None else value.name
        elif isinstance(value, Named):
            accepted = inspect.signature(registered(parts[0], value.name, REGISTRIES[parts[0]])).parameters
            known_name(f"setting of {value.name}", part, accepted)
            value = value.settings.get(part, accepted[part].default)
        elif hasattr(value, part):
            value = getattr(value, part)
        else:
            raise ValueError(f"{method.name}: {name!r} names nothing in a method")
    return value


def has_setting(method: Method, name: str) -> bool:
    """Whether there is anything at this dotted name."""
    try:
        at(method, name)
    except ValueError:
        return False
    return True


def typed(method: Method, name: str, value: Any) -> Any:
    """The value as the setting of this dotted name holds it; a ValueError where it cannot, or where the method has no such setting."""
    table, _, part = name.partition(".")
    owner = getattr(method, known_name("setting of methods", table, [entry.name for entry in fields(Method)]))
    if isinstance(owner, Named) and part not in ("", "name"):
        at(method, name)
        return converted(value, get_type_hints(registered(table, owner.name, REGISTRIES[table]).__init__)[part], name)
    return at(with_settings(method, {name: value}), name)


@lru_cache(maxsize=256)
def _of_package(name: str) -> Method:
    return _read(FOLDER / f"{name}.toml")


def _read(path: Path) -> Method:
    with naming(f"method file {path.name}"):
        table = {"name": path.stem, **read_toml(path)}
        for key in REGISTRIES:
            table |= {key: _beside(path, table[key])} if key in table else {}
        method = from_table(Method, table, where=f"method file {path.name}")
        for table_name, known in REGISTRIES.items():
            named = getattr(method, table_name)
            if named is not None and named.name in known:
                for name, value in named.settings.items():
                    typed(method, f"{table_name}.{name}", value)
        for name, space in method.search.items():
            at(method, name)
            if isinstance(space, Choice) and not space.choices:
                raise ValueError(f"{name} in [search] has no choices: expected at least one")
            if isinstance(space, Uniform) and (space.low > space.high or (space.log and space.low <= 0)):
                raise ValueError(f"{name} in [search] is from {space.low:g} to {space.high:g}: expected low <= high, with log both above 0")
        grid = {name: tuple(typed(method, name, value) for value in values) for name, values in method.grid.items()}
        return replace(method, grid=grid)


def _checked(table: str, named: Named) -> Named:
    """With a name that is known, or an address of code that is resolved."""
    kind = {"mining": "miner"}.get(table, table)
    name = checked_name(kind, named.name, REGISTRIES[table])
    if table == "sampler" and is_address(name) and is_here(name):
        entry = registered(kind, name, SAMPLERS)
        if not (inspect.isclass(entry) and issubclass(entry, BatchSampler)):
            raise ValueError(f"{named.name} is no sampler: expected a class that derives from likewise.samplers.BatchSampler")
    return named if name == named.name else replace(named, name=name)


def _accepted(table: str, named: Named) -> Iterable[str]:
    """The settings that a loss, a miner or a sampler takes from a method file."""
    entry = registered(table, named.name, REGISTRIES[table])
    return entry.settings_of_methods() if table == "sampler" else inspect.signature(entry).parameters


def _beside(path: Path, given: Any) -> Any:
    """What a method file says of a loss, a miner or a sampler, an address of code seen from the file's own folder."""
    name = given.get("name") if isinstance(given, Mapping) else given
    if not isinstance(name, str) or not is_address(name):
        return given
    resolved = resolved_address(name, folder=path.parent)
    return {**given, "name": resolved} if isinstance(given, Mapping) else resolved
