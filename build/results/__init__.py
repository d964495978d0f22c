"""What comes out of a build: its report, exports of single variants, and the check that it can be reproduced."""
