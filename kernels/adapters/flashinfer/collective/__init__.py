"""FlashInfer's kernels for several GPUs on one NVLink: sums of rows and their norms, gathered columns, a product.

A sum over GPUs is two launches: each GPU writes its part into all mailboxes at once, through an address of multicast
memory (``publish``); then each sums what its own mailbox holds (``sums``). For many rows it is three (``rows``), or
one that stays (``persistent``). What makes the mailboxes, and gives their addresses, is the library's own.
The arguments of each op are those of the library's kernel, by its names: see ``help(loader.get(..))``.

Each rank has a kernel of its own. It is verified alone: what the other ranks send is in its mailboxes already, and what
it sends them arrives in theirs.
"""
