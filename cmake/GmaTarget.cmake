# Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
# Compiler settings shared by every target of the project.

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
endif()
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

# CMAKE_POSITION_INDEPENDENT_CODE would compile executables with -fPIE, and they could not share a
# precompiled header with libraries.
add_compile_options(-fPIC)

if(GMA_SANITIZE)
  add_compile_options(-fsanitize=${GMA_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer -g)
  add_compile_definitions(_GLIBCXX_ASSERTIONS)
  add_link_options(-fsanitize=${GMA_SANITIZE})
endif()

if(GMA_FUZZ)
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()

# Warnings are errors in our own code; libraries' headers come in as SYSTEM.
function(gma_target target)
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wpedantic -Wconversion
                                           -Wno-sign-conversion -Werror)
  # g++ 12 sees an overflow inside fmt's own fill_t where there is none.
  target_compile_options(${target} PRIVATE
    $<$<CXX_COMPILER_ID:GNU>:-Wshadow=local;-Wno-stringop-overflow>
    $<$<CXX_COMPILER_ID:Clang>:-Wshadow>)
endfunction()
