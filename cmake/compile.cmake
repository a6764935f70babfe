# Language standard, warnings and sanitizers for all targets.

set(CMAKE_C_STANDARD 17)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS OFF)

set(BG_WARNINGS -Wall -Wextra -Wshadow -Wconversion -Wstrict-prototypes -Wmissing-prototypes
  -Wvla -Wundef -Wcast-align -Wformat=2 -Wdouble-promotion -Wpointer-arith)

# Compiles a target with 64-bit file offsets, even on 32-bit machines. On 64-bit machines, 64-bit
# offsets are the default. The definition is omitted there, because tests interpose functions by
# their names without the suffix 64 (open, not open64).
function(bg_compile target)
  if(CMAKE_SIZEOF_VOID_P EQUAL 4)
    target_compile_definitions(${target} PRIVATE _FILE_OFFSET_BITS=64)
  endif()
  target_compile_options(${target} PRIVATE -fmacro-prefix-map=${PROJECT_SOURCE_DIR}/=
    "$<$<COMPILE_LANGUAGE:C>:${BG_WARNINGS}>" $<$<BOOL:${BG_WERROR}>:-Werror>)
endfunction()

# BG_SANITIZE=address,undefined or BG_SANITIZE=thread builds everything with these sanitizers.
# The first error that a sanitizer finds aborts the program, so that the test fails.
set(BG_SANITIZE "" CACHE STRING "Sanitizers to build with (the value of -fsanitize=)")
if(BG_SANITIZE)
  add_compile_options(-fsanitize=${BG_SANITIZE} -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${BG_SANITIZE})
endif()

option(BG_FUZZ "Build the fuzzers with libFuzzer instead of the replay driver" OFF)
if(BG_FUZZ)
  add_compile_options(-fsanitize=fuzzer-no-link -fno-sanitize-coverage=trace-cmp)
endif()
