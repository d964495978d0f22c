"""Commands that ship a cache: wheel, bundle, push, fetch, merge, native."""
