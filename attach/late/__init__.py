"""Attaching late: whether a library that is imported already can still be attached.

An engine loads its plug-ins when it is imported already. A hook that is installed then replaces an attribute of a
module. It is seen by every later call that reads this attribute, and by none that kept the old value: under another
module's name, in a table, in a class, in a closure. So the rule is: a value can be replaced late where nothing but its
own module, or its class, holds it. The garbage collector lists every holder; a search of modules would miss tables.
A refusal changes nothing: all seams are checked before the first is installed.
"""
