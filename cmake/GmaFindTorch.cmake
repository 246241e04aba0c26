# LibTorch, out of the torch wheel of GMA_PYTHON.

execute_process(COMMAND "${GMA_PYTHON}" -c "import torch; print(torch.utils.cmake_prefix_path)"
                OUTPUT_VARIABLE gma_torch_prefix OUTPUT_STRIP_TRAILING_WHITESPACE
                RESULT_VARIABLE gma_torch_missing)
if(gma_torch_missing)
  message(FATAL_ERROR "No torch package in ${GMA_PYTHON}: run 'make setup' first, or set GMA_PYTHON")
endif()
list(APPEND CMAKE_PREFIX_PATH "${gma_torch_prefix}")
find_package(Torch 2.13 REQUIRED)

# torch.h takes half a minute to parse: it is compiled once, here, and every target that includes
# it takes this header by gma_use_torch().
add_library(gma_torch_pch OBJECT "${PROJECT_SOURCE_DIR}/cmake/torch_pch.cc")
target_link_libraries(gma_torch_pch PUBLIC torch)
target_precompile_headers(gma_torch_pch PRIVATE <torch/torch.h>)

function(gma_use_torch target)
  target_link_libraries(${target} PUBLIC torch)
  target_precompile_headers(${target} REUSE_FROM gma_torch_pch)
  set_target_properties(${target} PROPERTIES DEFINE_SYMBOL "")
endfunction()
