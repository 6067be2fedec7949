"""Operators of TorchScript code on numbers, strings, lists, dicts and tuples: C++ only (PEN_OP), for the VM."""
