# Cross compilation for 32-bit x86: small size_t, no 64-bit vector paths; programs are static. They run
# as they are where the kernel runs such programs, else under qemu-user.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR i386)
set(CMAKE_C_COMPILER i686-linux-gnu-gcc)
set(CMAKE_EXE_LINKER_FLAGS_INIT -static)
if(NOT EXISTS /proc/sys/abi/vsyscall32)
  set(CMAKE_CROSSCOMPILING_EMULATOR qemu-i386-static)
endif()
