"""Write a policy as ONNX or TorchScript, and run such a file."""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from muster.errors import InputError
from muster.extras import how_to_install
from muster.policies.interface import Interface
from muster.policies.policy import Policy
from muster.simulators.describing import MASK, Description, Keys, leaves

Array = NDArray[Any]
Format = Literal["onnx", "torchscript"]
SUFFIXES: dict[Format, str] = {"onnx": ".onnx", "torchscript": ".pt"}
_MODULES: dict[Format, tuple[str, ...]] = {"onnx": ("torch", "onnx", "onnxruntime"), "torchscript": ("torch",)}
_EXTRAS: dict[Format, str] = {"onnx": "onnx", "torchscript": "torch"}


@runtime_checkable
class ExportablePolicy(Policy, Protocol):
    """A policy of the built-in engine's: one whose outputs can be told before they become an action."""

    interface: Interface

    def outputs(self, observation: Any) -> Array:
        """Return what the distribution reads, before any mask, `[1, num_outputs]`."""


def require(file_format: Format) -> None:
    """Look whether what a format needs is installed.

    Raises:
        InputError: with the command that installs it.
    """
    try:
        for module in _MODULES[file_format]:
            import_module(module)
    except ModuleNotFoundError as error:
        raise InputError(
            f"--format {file_format} needs an extra ({error}){how_to_install(_EXTRAS[file_format])}"
        ) from None


def observation_arrays(
    observations: Description, batch: Sequence[Any], masks: Sequence[Any] | None
) -> dict[str, Array]:
    """Return a batch of observations as the exported file takes it: an array for each part, by its name."""
    arrays = arrays_of_parts("observation", observations, batch)
    if masks is not None:
        arrays[MASK] = np.stack([np.ravel(mask) for mask in masks]).astype(np.int8)
    return arrays


def arrays_of_parts(root: str, description: Description, batch: Sequence[Any]) -> dict[str, Array]:
    """Return a batch of observations or actions as an array `[batch, ...]` for each part, by its name."""
    arrays = {}
    for keys, leaf in leaves(description):
        parts = batch
        for key in keys:
            parts = [part[key] for part in parts]
        arrays[part_name(root, keys)] = np.stack([np.asarray(part) for part in parts]).astype(_dtype(leaf))
    return arrays


def part_name(root: str, keys: Keys) -> str:
    """Return the name that an input or output has, such as `observation.sensors.0`."""
    return ".".join([root, *map(str, keys)])


def _dtype(leaf: Description) -> Any:
    own = {"discrete": np.int64, "multi_discrete": np.int64, "multi_binary": np.int8, "image": np.uint8}
    return own.get(leaf["kind"]) or np.dtype(leaf["dtype"])


def write(policy: ExportablePolicy, path: Path, file_format: Format, example: dict[str, Array]) -> tuple[str, ...]:
    """Write a policy to a file, traced with an example of its inputs; return the names of its outputs."""
    import torch

    from muster.policies.graph import PolicyGraph

    graph = PolicyGraph(policy, takes_mask=MASK in example).eval()
    inputs = tuple(torch.from_numpy(example[name]) for name in graph.input_names)
    with warnings.catch_warnings(), torch.no_grad(), redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        if file_format == "torchscript":
            torch.jit.trace(graph, inputs).save(str(path))
        else:
            torch.onnx.export(
                graph,
                inputs,
                str(path),
                input_names=graph.input_names,
                output_names=graph.output_names,
                dynamic_axes={name: {0: "batch"} for name in [*graph.input_names, *graph.output_names]},
                dynamo=False,
            )
    return tuple(graph.output_names)


def opened(
    path: Path, file_format: Format, output_names: Sequence[str]
) -> Callable[[dict[str, Array]], dict[str, Array]]:
    """Return a function that runs an exported file: arrays by name in, arrays by name out."""
    if file_format == "onnx":
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        return lambda arrays: dict(zip(output_names, session.run(list(output_names), arrays), strict=True))
    import torch

    module = torch.jit.load(str(path))

    def run(arrays: dict[str, Array]) -> dict[str, Array]:
        with torch.no_grad():
            results = module(*(torch.from_numpy(array) for array in arrays.values()))
        return {name: result.numpy() for name, result in zip(output_names, results, strict=True)}

    return run
