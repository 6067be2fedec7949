"""Floats to integers: a fused graph and calibration data in, the same graph with quantize and dequantize around what shall compute in
integers out (passes/integer.py then takes the pairs up). One file for each step:

    batches.py      what a user gives to calibrate with, checked
    unfuse.py       activations that integer kernels do not have, and residuals, stand on their own
    place.py        which nodes compute in integers, which values are stored as such, which share a scale
    observe.py      what values the float graph has on the batches
    equalize.py     channels of one tensor, which has one scale, made equally large
    scheme.py       scale and zero point of every value and weight
    correct.py      the mean error of rounded weights goes into the biases
    insert.py       quantize and dequantize nodes; or the same in floats, to see what it costs
    sensitivity.py  what each layer costs, and which to keep in floats within a budget
    report.py       what was done, as a table and (report_page.py) a page
    weight_only.py  weights alone

Nothing here compiles or runs a graph: the driver (penlight/quantizer.py) gives a function for that, `Execute`.
"""
