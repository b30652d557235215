"""The policy on a CPU: Triton's python backend around onnxruntime, for desks, tests and bring-up.

In: the four inputs of the contract, batch 1..4. Out: its four FP16 outputs. A request that does not fit is answered
with an error naming field, value and limit; it never reaches the network. `parameters` of the configuration:
`threads` (of onnxruntime; default 1).

This file runs in the server's own Python environment (numpy 1.x: with numpy 2 the backend returns outputs of zero
bytes) and therefore imports nothing of wardarm.
"""

import json
import os

import numpy as np
import onnxruntime
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        config = json.loads(args["model_config"])
        self.inputs = {i["name"]: [int(d) for d in i["dims"]] for i in config["input"]}
        self.outputs = {o["name"]: [int(d) for d in o["dims"]] for o in config["output"]}
        self.max_batch = int(config["max_batch_size"])
        if int(np.__version__.split(".")[0]) >= 2:
            raise pb_utils.TritonModelException(
                f"numpy {np.__version__} in the server's environment: needs numpy < 2 ('make triton' builds it)"
            )
        options = onnxruntime.SessionOptions()
        threads = config.get("parameters", {}).get("threads", {}).get("string_value", "1")
        options.intra_op_num_threads = int(threads)
        options.inter_op_num_threads = 1
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")  # idle threads leave the cores alone
        folder = os.path.join(args["model_repository"], args["model_version"])
        self.session = onnxruntime.InferenceSession(
            os.path.join(folder, "policy.onnx"), options, providers=["CPUExecutionProvider"]
        )

    def _read(self, request):
        arrays = {}
        for name, dims in self.inputs.items():
            tensor = pb_utils.get_input_tensor_by_name(request, name)
            if tensor is None:
                raise ValueError(f"{name}: missing")
            array = tensor.as_numpy()
            if list(array.shape[1:]) != dims or not 1 <= array.shape[0] <= self.max_batch:
                raise ValueError(f"{name}: shape {list(array.shape)}, expected [1..{self.max_batch}] + {dims}")
            arrays[name] = array
        state = arrays["robot_state"]
        if not np.isfinite(state).all():
            raise ValueError(f"robot_state: not finite: {state.tolist()}")
        if (arrays["attention_mask"].sum(1) < 1).any():
            raise ValueError("attention_mask: no token at all; the instruction is empty")
        return arrays

    def execute(self, requests):
        responses = []
        for request in requests:
            try:
                arrays = self._read(request)
                names = list(self.outputs)
                values = self.session.run(names, arrays)
                tensors = [
                    pb_utils.Tensor(n, np.ascontiguousarray(v, dtype=np.float16))
                    for n, v in zip(names, values, strict=True)
                ]
                responses.append(pb_utils.InferenceResponse(output_tensors=tensors))
            except Exception as e:  # whatever is wrong with one request must not take the server down
                responses.append(
                    pb_utils.InferenceResponse(output_tensors=[], error=pb_utils.TritonError(f"groot_n15: {e}"))
                )
        return responses
