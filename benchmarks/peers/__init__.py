# Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
