"""What a compilation reads beside its arguments: files, modules, variables, and what is never the same twice."""
