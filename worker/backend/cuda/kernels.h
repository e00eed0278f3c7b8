// The kernels of the CUDA backend, as functions that start them in a stream. T is float or double.
// In: operands in device memory. Out: what cudaGetLastError says after the launch. Nothing waits here. Each number is
// made by one thread or one block in a fixed order, whatever the number of lanes: no result depends on timing.
#pragma once

#include <cuda_runtime_api.h>

#include <vector>

#include "worker/backend/backend.h"
#include "worker/backend/cuda/operand.h"

namespace jacserve::worker::cuda {

// elementwise.cu
template <class T>
cudaError_t Unary(cudaStream_t stream, UnaryFunction f, T alpha, T beta, int64_t lanes, int64_t n, Operand<const T> x,
                  Operand<T> y);
template <class T>
cudaError_t UnaryPullback(cudaStream_t stream, UnaryFunction f, T alpha, T beta, int64_t lanes, int64_t n,
                          Operand<const T> x, Operand<const T> y, Operand<const T> ct_y, Operand<T> ct_x);
template <class T>
cudaError_t Binary(cudaStream_t stream, BinaryFunction f, int64_t lanes, const Axes<3>& axes, Operand<const T> a,
                   Operand<const T> b, Operand<T> out);
template <class T>
cudaError_t Select(cudaStream_t stream, int64_t lanes, const Axes<4>& axes, Operand<const T> c, Operand<const T> a,
                   Operand<const T> b, Operand<T> out);
cudaError_t RoundToHalf(cudaStream_t stream, HalfFormat format, int64_t lanes, int64_t n, Operand<float> x,
                        HalfLoss* loss);

// strided.cu: terms over a shape, summed where the result has no axis.
// out[p] = (or +=) sum over q of v df/d(side) at the point p of `kept` and q of `summed`. Operands a, b, y, v, out.
template <class T>
cudaError_t BinaryTerm(cudaStream_t stream, BinaryFunction f, int side, int64_t lanes, const Axes<5>& kept,
                       const Axes<5>& summed, Operand<const T> a, Operand<const T> b, Operand<const T> y,
                       Operand<const T> v, Operand<T> out, bool accumulate);
// dst[p] = (or +=) scale * sum over q of src. Operands src, dst.
template <class T>
cudaError_t CopyStrided(cudaStream_t stream, int64_t lanes, const Axes<2>& kept, const Axes<2>& summed,
                        Operand<const T> src, Operand<T> dst, bool accumulate, T scale);
template <class T>
cudaError_t Fill(cudaStream_t stream, int64_t lanes, int64_t n, T value, Operand<T> x);

// rows.cu
template <class T>
cudaError_t OuterRows(cudaStream_t stream, Terms terms, int64_t m, int64_t n, Operand<const T> a, Operand<const T> b,
                      Operand<T> rows, bool accumulate);
// pointers[q] = x.At(q / groups) + q % groups * group_stride, for the batches of cuBLAS.
template <class T>
cudaError_t Pointers(cudaStream_t stream, int64_t lanes, int64_t groups, int64_t group_stride, Operand<const T> x,
                     const T** pointers);

// windows.cu
template <class T>
cudaError_t Patches(cudaStream_t stream, const WindowGeometry& g, int64_t lanes, Operand<const T> x,
                    Operand<T> patches);
// ct_x[i, n] = sum over kernel positions k of columns[i, k, l], where l is the output position that meets n by k.
template <class T>
cudaError_t FoldColumns(cudaStream_t stream, const WindowGeometry& g, int64_t lanes, Operand<const T> columns,
                        Operand<T> ct_x);
template <class T>
cudaError_t MaxPool(cudaStream_t stream, const WindowGeometry& g, int64_t lanes, Operand<const T> x, Operand<T> y,
                    Operand<int32_t> arg);
template <class T>
cudaError_t AveragePool(cudaStream_t stream, const WindowGeometry& g, bool count_pads, int64_t lanes,
                        Operand<const T> x, Operand<T> y);
template <class T>
cudaError_t AveragePoolPullback(cudaStream_t stream, const WindowGeometry& g, bool count_pads, int64_t lanes,
                                Operand<const T> ct_y, Operand<T> ct_x);

// indexed.cu
template <class T>
cudaError_t TakeAt(cudaStream_t stream, int64_t lanes, int64_t n_out, Operand<const int32_t> arg, Operand<const T> x,
                   Operand<T> y);
// turns: room for 2 * n_in numbers for each of `turn_lanes` lanes; fewer than one lane: one thread adds a lane's terms.
template <class T>
cudaError_t ScatterAdd(cudaStream_t stream, int64_t lanes, int64_t n_out, int64_t n_in, Operand<const int32_t> arg,
                       Operand<const T> ct_y, Operand<T> ct_x, int32_t* turns, int64_t turn_lanes);
template <class T>
cudaError_t TakeIndexed(cudaStream_t stream, const IndexGeometry& g, int64_t lanes, Operand<const T> x,
                        Operand<const T> index, T outside, Operand<T> y);
template <class T>
cudaError_t PutIndexed(cudaStream_t stream, const IndexGeometry& g, int64_t lanes, Operand<const T> index,
                       Operand<const T> values, bool accumulate, int64_t poison, Operand<T> x);

// lines.cu
template <class T>
cudaError_t Softmax(cudaStream_t stream, bool log, int64_t lanes, int64_t outer, int64_t n, int64_t inner,
                    Operand<const T> x, Operand<T> y);
template <class T>
cudaError_t SoftmaxPullback(cudaStream_t stream, bool log, int64_t lanes, int64_t outer, int64_t n, int64_t inner,
                            Operand<const T> y, Operand<const T> ct_y, Operand<T> ct_x);
template <class T>
cudaError_t Scan(cudaStream_t stream, bool product, bool exclusive, bool reverse, int64_t lanes, int64_t outer,
                 int64_t n, int64_t inner, Operand<const T> x, Operand<T> y);
template <class T>
cudaError_t TopK(cudaStream_t stream, const TopKShape& shape, int64_t lanes, Operand<const T> x, Operand<T> values,
                 Operand<T> indices, Operand<int32_t> arg);

// normalize.cu
template <class T>
cudaError_t Affine(cudaStream_t stream, const Channels& c, int64_t lanes, Operand<const T> x, Operand<const T> gain,
                   Operand<const T> bias, Operand<T> y);
template <class T>
cudaError_t ChannelRows(cudaStream_t stream, const Channels& c, Terms terms, Operand<const T> a, Operand<const T> b,
                        Operand<T> rows, bool accumulate);
template <class T>
cudaError_t Normalize(cudaStream_t stream, const NormGroups& g, int64_t lanes, Operand<const T> x, Operand<T> normal,
                      Operand<T> rstd, Operand<T> mean);
template <class T>
cudaError_t NormalizePullback(cudaStream_t stream, const NormGroups& g, const Channels& c, int64_t lanes,
                              Operand<const T> normal, Operand<const T> rstd, Operand<const T> gain,
                              Operand<const T> ct_y, Operand<T> ct_x);

}  // namespace jacserve::worker::cuda
