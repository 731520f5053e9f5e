"""One of the processes of tests/training/test_ranks.py, started by torchrun: ranks_worker.py FOLDER

Trains every case on its share of the batches and leaves the weights in FOLDER/RANK.pt.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

sys.path.insert(0, str(Path(__file__).parents[2]))

from likewise.methods import Method
from tests.training.tiny import PROTOCOL, method, pictures, training

# Plain SGD: Adam would blow the rounding of small gradients up to whole steps. Batch norm that moves sees each rank's share.
CONDITIONS = replace(PROTOCOL, frozen_batch_norm=True, optimizer="sgd", momentum=0.5, steps=4, validate_every=2)
METHODS: dict[str, Method] = {
    "rows": method("raw_vthm"),
    "proxies": method("proxy_anchor"),
    "whole batch": method("histogram"),
    "multilevel": method("ranked_list_multilevel"),
    "parts": method("bier"),
    "cascade": method("hdc"),
    "ensemble": method("dreml", ensemble__members=2, loss__scale=1.0),
    "hard classes": method("raw", sampler__name="hard_classes", sampler__share_known=0.1),
    "boundaries": method("margin", mining__name="all"),
}
UNDER = {  # another condition
    "hard classes": {"steps": 14},  # two epochs: the means of the first choose the batches of the second
    "boundaries": {"clip": 0.01},
}


def trained(name: str, micro_batch: int | None) -> dict[str, Any]:
    """Weights, proxies, log and best step of a case."""
    protocol = replace(CONDITIONS, **UNDER.get(name, {}))  # type: ignore[arg-type]
    found = training(METHODS[name], protocol, held_out=pictures(classes=4, seed=1), micro_batch=micro_batch)
    assert found.run()
    rows = [{key: value for key, value in row.items() if "second" not in key} for row in found.rows]
    return {"network": found.network.state_dict(), "objectives": found.objectives.state_dict(), "rows": rows, "best_step": found.best_step}


def main(folder: Path) -> None:
    torch.set_num_threads(1)
    found = {(name, micro_batch): trained(name, micro_batch) for name in METHODS for micro_batch in (None, 3)}
    torch.save(found, folder / f"{dist.get_rank()}.pt")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
