"""``python -m precast.loader.attach``: run a program with libraries attached."""

from precast.attach.__main__ import main

if __name__ == "__main__":
    main()
