"""A network as onnxruntime runs it: on a CPU two to three times as fast as torch, for the same numbers."""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

import torch
from torch import Tensor, nn

from likewise.models.embedding import evaluating

# Of torch's older exporter, which takes half a second where the newer takes two to ten, and needs one package (onnx) instead of two. So
# a graph is made anew in every process and none is kept; one that torch cannot make, or that differs from the network, is not used.
OPSET = 17
TOLERANCE = 1e-4  # of the largest value
EXAMPLES = 4  # images on which the two are compared
ANY_NUMBER = {"images": {0: "number"}, "vectors": {0: "number"}}


def onnx_network(network: nn.Module, size: int) -> Callable[[Tensor], Tensor] | None:
    """`network` (one tensor of one) for float images (N, 3, size, size), to be called by several threads at once, each with one core.

    None where onnxruntime or onnx are not installed, where torch cannot express the network in their terms, or where the results differ
    from torch's by more than rounding.
    """
    try:
        runtime: Any = import_module("onnxruntime")
        import_module("onnx")
    except ImportError:
        return None
    example = torch.randn(EXAMPLES, 3, size, size, generator=torch.Generator().manual_seed(0))
    try:
        with evaluating(network):
            session = onnx_session(runtime, onnx_graph(network, example, ANY_NUMBER))
    except Exception:  # exporter and runtime raise errors of many kinds; torch does it, more slowly
        return None

    def run(inputs: Tensor) -> Tensor:
        (outputs,) = session.run(None, {"images": inputs.contiguous().numpy()})
        return torch.from_numpy(outputs)

    with torch.no_grad(), evaluating(network):
        expected: Tensor = network(example)
    return run if (run(example) - expected).abs().max() <= TOLERANCE * expected.abs().max() else None


def onnx_graph(network: nn.Module, example: Tensor, names: Mapping[str, Mapping[int, str]]) -> bytes:
    """The network, in evaluation mode, for inputs such as the example.

    names: of the input and of the output, each with those of its axes that may have any length.
    """
    content = io.BytesIO()
    given, result = names
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that there is a newer exporter, and what it does not fold
        torch.onnx.export(
            network,
            (example,),
            content,  # type: ignore[arg-type]  # it is fine, says the older one's documentation
            input_names=[given],
            output_names=[result],
            dynamic_axes=names,
            opset_version=OPSET,
            dynamo=False,
        )
    return content.getvalue()


def onnx_session(runtime: Any, graph: bytes) -> Any:
    """With one core; any number of threads may run it at once."""
    options = runtime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    return runtime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])
