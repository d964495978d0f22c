"""Files written so that no reader ever sees half of one, and the memo of what need not be computed again."""
