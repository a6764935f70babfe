# How every target of this project is compiled: the language, the warnings.

set(CMAKE_C_STANDARD 17)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS OFF)

set(BG_WARNINGS -Wall -Wextra -Wshadow -Wconversion -Wstrict-prototypes -Wmissing-prototypes
  -Wvla -Wundef -Wcast-align -Wformat=2 -Wdouble-promotion -Wpointer-arith)

# Files beyond 2 GiB, and folders of large file systems, on 32-bit machines too.
function(bg_compile target)
  if(CMAKE_SIZEOF_VOID_P EQUAL 4) # elsewhere they are, and tests interpose the plain names
    target_compile_definitions(${target} PRIVATE _FILE_OFFSET_BITS=64)
  endif()
  target_compile_options(${target} PRIVATE -fmacro-prefix-map=${PROJECT_SOURCE_DIR}/=
    "$<$<COMPILE_LANGUAGE:C>:${BG_WARNINGS}>" $<$<BOOL:${BG_WERROR}>:-Werror>)
endfunction()

# BG_SANITIZE=address,undefined or thread: everything is built with these sanitizers.
# The first finding ends the program, so that a test fails.
set(BG_SANITIZE "" CACHE STRING "Sanitizers, as for -fsanitize=")
if(BG_SANITIZE)
  add_compile_options(-fsanitize=${BG_SANITIZE} -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${BG_SANITIZE})
endif()

option(BG_FUZZ "Build the fuzzers with libFuzzer instead of the replay driver" OFF)
if(BG_FUZZ)
  add_compile_options(-fsanitize=fuzzer-no-link -fno-sanitize-coverage=trace-cmp)
endif()
