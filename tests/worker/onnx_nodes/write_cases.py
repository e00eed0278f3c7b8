"""Writes ONNX's own operator tests as folders, as its test data has them.

usage: write_cases.py FOLDER; needs the Python package onnx. One folder a test: model.onnx, test_data_set_0/input_K.pb and
output_K.pb.
"""
import os
import sys
import warnings

import numpy as np
from onnx import TensorProto, numpy_helper
from onnx.backend.test.case.node import collect_testcases

warnings.filterwarnings("ignore")


def write(path, value):
    if isinstance(value, np.ndarray) or np.isscalar(value):
        value = numpy_helper.from_array(np.asarray(value))
    with open(path, "wb") as file:
        # A sequence or optional is no tensor: an empty file says so.
        file.write(value.SerializeToString() if isinstance(value, TensorProto) else b"\xff")


def main(root):
    for case in collect_testcases(None):
        folder = os.path.join(root, case.name)
        data = os.path.join(folder, "test_data_set_0")
        os.makedirs(data, exist_ok=True)
        with open(os.path.join(folder, "model.onnx"), "wb") as file:
            file.write(case.model.SerializeToString())
        inputs, outputs = case.data_sets[0]
        for kind, values in (("input", inputs), ("output", outputs)):
            for k, value in enumerate(values):
                write(os.path.join(data, f"{kind}_{k}.pb"), value)


main(sys.argv[1])
