"""Host programs: what an object's host code does at a call, as data, so that device code alone can be launched."""
