# Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
"""Finds and loads the shared library that registers the operators."""

import os
from pathlib import Path

import torch

from gma_torch._version import WHEELS_TORCH

_NAME = "libgma_torch.so"


def find_library() -> Path:
    """Path of the library: GMA_TORCH_LIBRARY if set, else beside this file, as in an installed
    package, else in the build tree of the checkout that this file is in."""
    named = os.environ.get("GMA_TORCH_LIBRARY")
    if named:
        candidates = [Path(named)]
    else:
        here = Path(__file__).resolve().parent
        candidates = [here / _NAME, here.parents[2] / "build" / "gma_torch" / _NAME]
    for candidate in candidates:
        if candidate.is_file():
            return candidate
    looked = ", ".join(str(candidate) for candidate in candidates)
    raise ImportError(
        f"gma_torch: {_NAME} not found (looked for {looked}). Build it with 'make build', or name it "
        "in the environment variable GMA_TORCH_LIBRARY."
    )


def load_library() -> None:
    """Loads the library; raises ImportError if it is missing or belongs to another torch."""
    path = find_library()
    try:
        torch.ops.load_library(str(path))  # type: ignore[no-untyped-call]
    except OSError as error:
        raise ImportError(
            f"gma_torch: {path} does not load into torch {torch.__version__}: expected the version "
            f"that it was built with, which for wheels is {WHEELS_TORCH}. Install that torch, or build "
            f"for this one with 'make build'. The loader says: {error}"
        ) from error
    built_for = torch.ops.gma._torch_version()
    if _release(built_for) != _release(torch.__version__):
        raise ImportError(
            f"gma_torch: {path} was built for torch {built_for}, but this is torch "
            f"{torch.__version__}. Build it again with 'make build'."
        )


def _release(version: str) -> list[str]:
    """Major and minor version: what comes after, repairs only, leaves the interface as it is."""
    return version.split("+")[0].split(".")[:2]
