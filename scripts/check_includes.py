# Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
"""Checks that each layer includes only what it may see (docs/architecture.md, "Layers").

An include is named by its first folder: "gma/view.h" is `gma`, <hwy/highway.h> is `hwy`. Headers
of the C++ standard library may be seen everywhere, those of the operating system in LAYERS below.
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TORCH = {"torch", "ATen", "c10"}
PUBLIC = {"gma", "gma_torch"}

# The first folder that holds a file decides. "*.h" stands for headers without a folder, such as
# <unistd.h> or <zlib.h>.
LAYERS: dict[str, set[str]] = {
    "include/gma": {"gma"},
    "src/common": {"gma", "common", "fmt"},
    "src/reference": {"gma", "common", "reference", "fmt"},
    "src/cpu": {"gma", "common", "cpu", "fmt", "hwy"},
    "src/dispatch": {"gma", "common", "cpu", "dispatch", "reference", "fmt", "*.h"},
    "src/theory": {"gma", "common", "reference", "theory", "fmt"},
    "src/io": {"gma", "common", "io", "fmt", "nlohmann", "*.h"},
    "gma_torch/include": PUBLIC | TORCH,
    "gma_torch/ops": PUBLIC | TORCH | {"ops", "fmt"},
    "gma_torch/nn": PUBLIC | TORCH | {"nn", "ops", "fmt", "nlohmann"},
    "apps/gma": PUBLIC
    | TORCH
    | {"cli", "compare", "data", "infer", "inspect", "profile", "report", "train"}
    | {"CLI", "curl", "fmt", "nlohmann", "openssl", "*.h"},
}
# Folders in which every source file must belong to a layer.
LAYERED = ("include", "src", "gma_torch", "apps")
INCLUDE = re.compile(r'^\s*#\s*include\s*(?:[<"]([^>"]+)[>"]|(\S+))', re.MULTILINE)


def seen(path: str) -> str | None:
    """What an include shows: a folder, "*.h", or None for the standard library."""
    folder, slash, _ = path.partition("/")
    if slash and folder != "sys":
        return folder
    return "*.h" if path.endswith(".h") else None


def layer_of(file: str) -> str | None:
    return next((layer for layer in LAYERS if file.startswith(f"{layer}/")), None)


def violations(root: Path) -> list[str]:
    found: list[str] = []
    files = [file for folder in LAYERED for file in sorted((root / folder).rglob("*"))]
    for file in files:
        name = str(file.relative_to(root))
        if file.suffix not in {".h", ".cc", ".cu"}:
            continue
        if (layer := layer_of(name)) is None:
            found.append(f"{name}:1: is in none of the layers")
            continue
        text = file.read_text()
        for match in INCLUDE.finditer(text):
            line = text.count("\n", 0, match.end()) + 1
            if match[1] is None:
                found.append(f"{name}:{line}: {match[2]} hides what is included")
            elif (what := seen(match[1])) is not None and what not in LAYERS[layer]:
                found.append(f"{name}:{line}: {layer} must not include {match[1]}")
    return found


def main() -> int:
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT
    found = violations(root)
    print("\n".join(found) or "Includes keep to the layers.")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
