# Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
# LibTorch, out of the torch wheel of GMA_PYTHON, as the target `torch`.
#
# find_package(Torch) would demand a CUDA toolkit wherever the wheel is a CUDA build, as PyPI's own
# is, although nothing here compiles CUDA. Headers and libraries lie in fixed places in every wheel.

set(gma_torch_query "from importlib.metadata import version; from importlib.util import find_spec; \
print(version('torch'), find_spec('torch').submodule_search_locations[0], sep=';')")
execute_process(COMMAND "${GMA_PYTHON}" -c "${gma_torch_query}"
                OUTPUT_VARIABLE gma_torch_found OUTPUT_STRIP_TRAILING_WHITESPACE
                RESULT_VARIABLE gma_torch_missing ERROR_QUIET)
if(gma_torch_missing)
  message(FATAL_ERROR "No torch package in ${GMA_PYTHON}: run 'make setup' first, or set GMA_PYTHON")
endif()
list(POP_FRONT gma_torch_found gma_torch_version gma_torch_dir)
if(gma_torch_version VERSION_LESS 2.13)
  message(FATAL_ERROR "torch is ${gma_torch_version} in ${GMA_PYTHON}: 2.13 or newer is needed")
endif()
message(STATUS "Found torch ${gma_torch_version}: ${gma_torch_dir}")

# The wheel brings the headers, but not the library, of a newer fmt than the one that is linked: the
# linked one's must be found first.
find_package(fmt REQUIRED)
find_path(GMA_FMT_INCLUDE_DIR fmt/format.h REQUIRED)
set(gma_fmt_first "${PROJECT_BINARY_DIR}/fmt_first")
file(MAKE_DIRECTORY "${gma_fmt_first}")
file(CREATE_LINK "${GMA_FMT_INCLUDE_DIR}/fmt" "${gma_fmt_first}/fmt" SYMBOLIC)

add_library(torch INTERFACE IMPORTED)
target_include_directories(torch INTERFACE "${gma_fmt_first}"
                                           "${gma_torch_dir}/include"
                                           "${gma_torch_dir}/include/torch/csrc/api/include")
target_link_libraries(torch INTERFACE "${gma_torch_dir}/lib/libtorch_cpu.so"
                                      "${gma_torch_dir}/lib/libc10.so")

# torch.h takes half a minute to parse: it is compiled once, here, and every target that includes
# it takes this header by gma_use_torch().
add_library(gma_torch_pch OBJECT "${PROJECT_SOURCE_DIR}/cmake/torch_pch.cc")
gma_target(gma_torch_pch)  # its -Wpedantic undefines a macro that gcc checks a header for
target_link_libraries(gma_torch_pch PUBLIC torch)
target_precompile_headers(gma_torch_pch PRIVATE <torch/torch.h>)

function(gma_use_torch target)
  target_link_libraries(${target} PUBLIC torch)
  target_precompile_headers(${target} REUSE_FROM gma_torch_pch)
  set_target_properties(${target} PROPERTIES DEFINE_SYMBOL "")
endfunction()

# A file's own code is little beside what it instantiates of torch. Libraries of many files compile
# several together, which halves the time; their unnamed namespaces must not clash.
function(gma_compile_together target)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 6)
endfunction()
