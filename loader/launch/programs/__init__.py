"""How the host programs of cubins are run: by native code, or packed for cuda-python."""
