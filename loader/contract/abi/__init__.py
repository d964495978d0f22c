"""Binary layouts of other projects, each declared once: DLPack and TVM-FFI."""
