// A graph in the words of the wire: what is data, what is a parameter, which operators work.
#pragma once

#include "jacserve/v1/types.pb.h"
#include "worker/engine/engine.h"

namespace jacserve::worker {

// Parameters are the float inputs of fixed size, or, when there are none, the float initializers; the rest is data.
v1::ModelDescription DescribeGraph(const Graph& graph, const GraphReport& report);

}  // namespace jacserve::worker
