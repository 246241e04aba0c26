# Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
# Installs libgma from BUILD_DIR under WORK_DIR, builds EXAMPLE_DIR against it and runs it.

file(REMOVE_RECURSE "${WORK_DIR}")
set(prefix "${WORK_DIR}/prefix")
set(build "${WORK_DIR}/build")
foreach(command IN ITEMS
        "${CMAKE_COMMAND};--install;${BUILD_DIR};--component;gma;--prefix;${prefix}"
        "${CMAKE_COMMAND};-S;${EXAMPLE_DIR};-B;${build};-G;${GENERATOR};-DCMAKE_CXX_COMPILER=${CXX};-DCMAKE_BUILD_TYPE=Release;-DCMAKE_PREFIX_PATH=${prefix}"
        "${CMAKE_COMMAND};--build;${build}"
        "${build}/example")
  execute_process(COMMAND ${command} COMMAND_ERROR_IS_FATAL ANY)
endforeach()
