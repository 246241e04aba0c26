# Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
"""Draws write_read.svg: `python docs/figures/draw.py`. Every number in it is computed here.

Left, a mixture of K = 4 Gaussians in a routing space of two dimensions with six tokens in it.
Right, what the operator does with them: each token writes to the components and reads from them
with its responsibilities, which are the widths of the lines.
"""

from math import exp, log, sqrt
from pathlib import Path

MEANS = [(-1.4, 0.9), (1.2, 1.1), (1.5, -1.0), (-1.0, -1.2)]
VARIANCES = [(1.7, 0.7), (0.8, 1.2), (1.5, 0.6), (1.0, 1.3)]
TOKENS = [(-1.9, 1.1), (-0.1, 1.0), (1.3, 1.6), (1.4, 0.0), (1.0, -1.2), (-1.1, -0.7)]
COLOURS = ["#3b6fb6", "#d9822b", "#3f9b62", "#a14fa1"]
INK = "#30343b"
WIDTH, HEIGHT = 760, 316


def responsibilities(x: tuple[float, float]) -> list[float]:
    """The posterior of each component, with equal priors."""
    logits = [
        -0.5 * sum(log(s2) + (a - m) ** 2 / s2 for a, m, s2 in zip(x, mean, variance, strict=True))
        for mean, variance in zip(MEANS, VARIANCES, strict=True)
    ]
    weights = [exp(logit - max(logits)) for logit in logits]
    return [weight / sum(weights) for weight in weights]


def text(x: float, y: float, content: str, anchor: str = "middle", size: int = 13) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}">{content}</text>'


def pie(x: float, y: float, radius: float, shares: list[float]) -> str:
    """A token, coloured by its responsibilities: rings of the shares, as dashes of one circle."""
    around = 2 * 3.14159265 * radius / 2
    parts, start = [], 0.0
    for share, colour in zip(shares, COLOURS, strict=True):
        parts.append(
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius / 2:.2f}" fill="none" stroke="{colour}" '
            f'stroke-width="{radius:.2f}" stroke-dasharray="{share * around:.2f} {around:.2f}" '
            f'stroke-dashoffset="{-start * around:.2f}"/>'
        )
        start += share
    return "".join(parts)


def mixture() -> list[str]:
    """The routing space: one and two standard deviations of each component, and the tokens."""
    scale, x0, y0 = 36.0, 160.0, 170.0
    parts = [text(x0, 26, "routing space", size=14)]
    for mean, variance, colour in zip(MEANS, VARIANCES, COLOURS, strict=True):
        for deviations in (1, 2):
            parts.append(
                f'<ellipse cx="{x0 + scale * mean[0]:.1f}" cy="{y0 - scale * mean[1]:.1f}" '
                f'rx="{deviations * scale * sqrt(variance[0]):.1f}" '
                f'ry="{deviations * scale * sqrt(variance[1]):.1f}" fill="{colour}" '
                'fill-opacity="0.13"/>'
            )
    for i, token in enumerate(TOKENS):
        x, y = x0 + scale * token[0], y0 - scale * token[1]
        parts += [pie(x, y, 8, responsibilities(token)), text(x + 12, y + 4, str(i + 1), "start", 11)]
    return parts


def flow() -> list[str]:
    """Keys to components to queries."""
    left, middle, right = 372.0, 536.0, 700.0
    token_y = [68.0 + 40 * i for i in range(len(TOKENS))]
    component_y = [80.0 + 58 * k for k in range(len(MEANS))]
    parts = [
        text(left, 26, "keys, values", size=14),
        text(middle, 26, "state (S, Z)", size=14),
        text(right, 26, "queries", size=14),
        text((left + middle) / 2, 46, "write", size=12),
        text((middle + right) / 2, 46, "read", size=12),
    ]
    for y, token in zip(token_y, TOKENS, strict=True):
        for gamma, at, colour in zip(responsibilities(token), component_y, COLOURS, strict=True):
            if gamma < 0.01:
                continue
            for x1, x2, y1, y2 in ((left, middle, y, at), (middle, right, at, y)):
                parts.append(
                    f'<path d="M{x1:.1f},{y1:.1f} C{(x1 + x2) / 2:.1f},{y1:.1f} '
                    f'{(x1 + x2) / 2:.1f},{y2:.1f} {x2:.1f},{y2:.1f}" fill="none" '
                    f'stroke="{colour}" stroke-opacity="0.6" stroke-width="{7 * gamma:.2f}"/>'
                )
    for i, (y, token) in enumerate(zip(token_y, TOKENS, strict=True)):
        shares = responsibilities(token)
        parts += [pie(left, y, 9, shares), pie(right, y, 9, shares)]
        parts += [text(left - 16, y + 4, str(i + 1), "end"), text(right + 16, y + 4, str(i + 1), "start")]
    for k, (y, colour) in enumerate(zip(component_y, COLOURS, strict=True)):
        parts += [
            f'<rect x="{middle - 19:.1f}" y="{y - 15:.1f}" width="38" height="30" rx="5" fill="{colour}"/>',
            f'<text x="{middle:.1f}" y="{y + 5:.1f}" text-anchor="middle" font-size="13" '
            f'fill="#ffffff">{k + 1}</text>',
        ]
    parts.append(text(middle, HEIGHT - 12, "K x (Dv + 1) numbers a head, whatever N is", size=12))
    return parts


def main() -> None:
    body = "\n".join([*mixture(), *flow()])
    svg = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        f'font-family="Helvetica, Arial, sans-serif" fill="{INK}">\n'
        f'<rect width="{WIDTH}" height="{HEIGHT}" rx="8" fill="#ffffff"/>\n{body}\n</svg>\n'
    )
    (Path(__file__).parent / "write_read.svg").write_text(svg)


if __name__ == "__main__":
    main()
