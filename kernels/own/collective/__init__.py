"""Operations of several GPUs at once, over memory that each of them reaches."""
