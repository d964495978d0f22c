"""The worker's use of the DSL: objects are captured and selected, and the compiler is warmed up."""
