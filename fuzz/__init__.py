"""Hostile input: `make fuzz` finds input that ends, hangs or bloats a node or a client.

hypothesis makes the inputs and shrinks those that fail; every target judges its inputs (`target.py`). It was chosen
over atheris for two reasons: a failing input comes out small and readable, and requests to other processes give a
coverage-guided fuzzer no coverage. Crashes of native code stay in a child process (`child.py`).
"""
