"""The libraries whose front ends are known: one small file each, which says where the library compiles."""
