"""Network files: a trained network with all that is needed to build it again."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from likewise.configuration import as_table, from_table
from likewise.files import write_whole
from likewise.models.network import Network, NetworkSpec, make_network


def save_network(network: Network, path: Path) -> str:
    """Writes the network with all that is needed to build it again, and gives the file's digest."""
    from safetensors.torch import save

    tensors = {name: held.detach().cpu().contiguous() for name, held in network.state_dict().items()}
    content = save(tensors, metadata={"spec": json.dumps(as_table(network.spec))})
    write_whole(path, content)
    return hashlib.sha256(content).hexdigest()


def load_network(path: Path) -> Network:
    from safetensors import safe_open

    with safe_open(path, framework="pt") as held:
        spec = from_table(NetworkSpec, json.loads(held.metadata()["spec"]), where=path.name)
        network = make_network(spec, seed=0)
        network.load_state_dict({name: held.get_tensor(name) for name in held.keys()})  # noqa: SIM118  # it is no mapping
    return network
