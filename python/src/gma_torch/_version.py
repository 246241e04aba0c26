# Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
"""The version of the whole project, as CMakeLists.txt says it too."""

__version__ = "0.1.0"
