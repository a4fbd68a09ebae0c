"""Installed trees: reading a site-packages folder, and changing it as one transaction.

Nothing outside this package writes below a target. The order of work is: :mod:`.interpreter` and
:mod:`.distribution` say where, :mod:`.bytecode` says what else has to change, :mod:`.lock` keeps
others out, :mod:`.transaction` does it, :mod:`.receipt` remembers it.
"""
