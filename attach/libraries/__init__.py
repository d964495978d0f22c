"""The libraries that ship with precast: one small file each, which declares where the library compiles."""
