"""From an object to a library: the toolchain, the linker, the runtime library, and what is read out of ELF files."""
