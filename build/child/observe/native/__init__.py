"""The native part of the observer: what native code and other programs read, as the observer's library logs it."""
