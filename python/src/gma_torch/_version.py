# Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
"""The version of the whole project, as CMakeLists.txt says it too."""

__version__ = "0.1.0"

WHEELS_TORCH = "2.13"
"""The torch that wheels are built for, as pyproject.toml says it too."""
