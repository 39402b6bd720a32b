"""Input that nobody would send on purpose: `make fuzz` finds what ends, hangs or bloats a node or a client.

hypothesis makes the inputs and shrinks those that fail; every target says how to judge one (`target.py`). It was
chosen over atheris because a failing input comes out small and readable, and because requests to other processes give
a coverage-guided fuzzer nothing to be guided by. Crashes of native code stay in a child process (`child.py`).
"""
