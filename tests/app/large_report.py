# Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
"""A report as of a model far larger than a test can run: another's page with made-up numbers."""

import base64
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np

LAYERS, HEADS, COMPONENTS, HEAD_SIZE = 12, 8, 256, 64
TOKENS, PER_TOKEN, WINDOW = 100_000, 1, 64
CATEGORIES = 8
SIDES = ("query", "key")


def metrics(random: np.random.Generator, source: dict) -> dict:
    head = source["layers"][0]["heads"][0]
    layers = [
        {**source["layers"][0], "layer": layer,
         "heads": [{**head, "head": number, "key_head": number,
                    **{side: {**head[side], "components": COMPONENTS,
                              "usage_entropy": random.uniform(0.5, 1)} for side in SIDES}}
                   for number in range(HEADS)]}
        for layer in range(LAYERS)
    ]
    total = LAYERS * HEADS * COMPONENTS
    return {**source, "checkpoint": "large", "layers": layers, "components": total,
            "components_used": total - 7, "tokens": TOKENS}


def blocks(random: np.random.Generator, pieces: int) -> Iterator[tuple[str, list[np.ndarray]]]:
    """Name and arrays of each block: see report/inspect/data.js."""
    text = random.zipf(1.3, TOKENS).clip(1, pieces).astype(np.uint32) - 1
    yield "text", [text, random.integers(0, CATEGORIES, TOKENS, np.uint8)]
    mixture = (HEADS, COMPONENTS, HEAD_SIZE)
    for layer in range(LAYERS):
        statistics = []
        for _ in range(2 * HEADS):
            statistics += [random.dirichlet(np.ones(COMPONENTS)).astype(np.float32),
                           random.uniform(0, 1, COMPONENTS).astype(np.float32),
                           random.integers(0, 100, (COMPONENTS, CATEGORIES)).astype(np.uint32)]
        yield f"{layer}-statistics", statistics
        yield f"{layer}-mixture", [
            random.standard_normal(mixture, np.float32),
            np.full(mixture, 8, np.float32),
            np.full((HEADS, COMPONENTS), -np.log(COMPONENTS), np.float32)]
        yield f"{layer}-windows", [
            *(random.standard_normal((WINDOW, HEADS, HEAD_SIZE), np.float32) for _ in SIDES),
            np.ones((HEADS, COMPONENTS), np.float32)]
        for side in SIDES:
            for head in range(HEADS):
                yield f"{layer}-{side}-{head}", [
                    np.ones(1, np.float32),
                    random.integers(0, 65536, PER_TOKEN * TOKENS, np.uint16),
                    random.integers(0, COMPONENTS, PER_TOKEN * TOKENS, np.uint8)]


def write_large_report(small: Path, large: Path) -> None:
    page = small.read_text()
    head, found, rest = page.partition('<script id="data" type="application/json">')
    text, end, rest = rest.partition("</script>")
    data = json.loads(text)
    random = np.random.default_rng(1)
    pieces = ["\n", *(f" word{i}" for i in range(2047))]
    layer = {"heads": HEADS, "keyHeads": HEADS, "components": COMPONENTS, "headSize": HEAD_SIZE,
             "ranks": [[WINDOW, 9.5]] * HEADS}
    data["models"] = [{**data["models"][0],
                       "metrics": metrics(random, data["models"][0]["metrics"]),
                       "layersOfModel": LAYERS, "sample": TOKENS, "perToken": PER_TOKEN,
                       "windows": [[500, WINDOW]], "pieces": pieces,
                       "layers": [{"number": i, **layer} for i in range(LAYERS)]}]
    before_blocks = rest.partition('<script type="text/plain" id="m0-')[0]
    with large.open("w") as file:
        file.write(head + found + json.dumps(data).replace("<", "\\u003c") + end + before_blocks)
        for name, arrays in blocks(random, len(pieces)):
            encoded = base64.b64encode(b"".join(array.tobytes() for array in arrays)).decode()
            file.write(f'<script type="text/plain" id="m0-{name}">{encoded}</script>\n')
        file.write("</html>\n")
