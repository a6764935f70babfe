# Cross-compiles for 32-bit x86, where size_t has 32 bits and no vector code is used. Programs are
# linked statically. If the kernel supports 32-bit programs, they run natively; otherwise, they run
# under qemu-user.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR i386)
set(CMAKE_C_COMPILER i686-linux-gnu-gcc)
set(CMAKE_EXE_LINKER_FLAGS_INIT -static)
if(NOT EXISTS /proc/sys/abi/vsyscall32)
  set(CMAKE_CROSSCOMPILING_EMULATOR qemu-i386-static)
endif()
