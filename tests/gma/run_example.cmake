# Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
# Installs libgma from BUILD_DIR under WORK_DIR, and libgma_torch too if TORCH_DIR names the LibTorch
# that it was built with; builds EXAMPLE_DIR against them and runs it.

file(REMOVE_RECURSE "${WORK_DIR}")
set(prefix "${WORK_DIR}/prefix")
set(build "${WORK_DIR}/build")
set(components gma)
if(TORCH_DIR)
  list(APPEND components gma_torch)
endif()
foreach(component IN LISTS components)
  execute_process(COMMAND "${CMAKE_COMMAND}" --install "${BUILD_DIR}" --component ${component}
                          --prefix "${prefix}"
                  COMMAND_ERROR_IS_FATAL ANY)
endforeach()

set(ENV{CMAKE_PREFIX_PATH} "${prefix}:${TORCH_DIR}")
foreach(command IN ITEMS
        "${CMAKE_COMMAND};-S;${EXAMPLE_DIR};-B;${build};-G;${GENERATOR};-DCMAKE_CXX_COMPILER=${CXX};-DCMAKE_BUILD_TYPE=Release"
        "${CMAKE_COMMAND};--build;${build}"
        "${build}/example")
  execute_process(COMMAND ${command} COMMAND_ERROR_IS_FATAL ANY)
endforeach()
