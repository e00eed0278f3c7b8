// Plain loops in the order of the formulas, for float and double. Other backends override what is hot.
#pragma once

#include "worker/backend/backend.h"

namespace jacserve::worker {

template <class T>
class ReferenceBackend : public Backend {
 public:
  std::string_view name() const override { return "reference"; }
  DType dtype() const override { return sizeof(T) == 4 ? DType::kFloat32 : DType::kFloat64; }
  const Memory& memory() const override { return memory_; }

  void Unary(UnaryFunction f, UnaryParams params, int64_t lanes, int64_t n, ConstLanes x, Lanes y) const override;
  void UnaryPullback(UnaryFunction f, UnaryParams params, int64_t lanes, int64_t n, ConstLanes x, ConstLanes y,
                     ConstLanes ct_y, Lanes ct_x) const override;
  void Binary(BinaryFunction f, int64_t lanes, const Shape& shape, ConstLanes a, const Shape& a_strides, ConstLanes b,
              const Shape& b_strides, Lanes out) const override;
  void BinaryTerm(BinaryFunction f, int side, int64_t lanes, const Shape& shape, const BinaryOperands& at, ConstLanes v,
                  const Shape& v_strides, Lanes out, const Shape& out_strides, bool accumulate) const override;
  void Select(int64_t lanes, const Shape& shape, ConstLanes c, const Shape& c_strides, ConstLanes a,
              const Shape& a_strides, ConstLanes b, const Shape& b_strides, Lanes out) const override;
  void CopyStrided(int64_t lanes, const Shape& shape, ConstLanes src, const Shape& src_strides, Lanes dst,
                   const Shape& dst_strides, bool accumulate, double scale) const override;
  void Fill(int64_t lanes, int64_t n, double value, Lanes x) const override;
  void SumTerms(Terms terms, ConstLanes src, const RowSink& sink) const override;
  void Gemm(const GemmShape& shape, int64_t lanes, ConstLanes a, ConstLanes b, Lanes c) const override;
  void OuterRows(Terms terms, int64_t m, int64_t n, ConstLanes a, ConstLanes b, Lanes rows,
                 bool accumulate) const override;
  void Patches(const WindowGeometry& g, int64_t lanes, ConstLanes x, Lanes patches) const override;
  void ConvForward(const WindowGeometry& g, int64_t lanes, ConstLanes patches, ConstLanes w, Lanes y) const override;
  void ConvDataPullback(const WindowGeometry& g, int64_t lanes, ConstLanes ct_y, ConstLanes w, Lanes ct_x,
                        Scratch& scratch) const override;
  void ConvWeightRows(const WindowGeometry& g, Terms terms, ConstLanes ct_y, ConstLanes patches, Lanes rows,
                      bool accumulate) const override;
  void MaxPool(const WindowGeometry& g, int64_t lanes, ConstLanes x, Lanes y, Lanes arg) const override;
  void ScatterAdd(int64_t lanes, int64_t n_out, int64_t n_in, ConstLanes arg, ConstLanes ct_y,
                  Lanes ct_x) const override;
  void TakeAt(int64_t lanes, int64_t n_out, ConstLanes arg, ConstLanes x, Lanes y) const override;
  void TopK(const TopKShape& shape, int64_t lanes, ConstLanes x, Lanes values, Lanes indices, Lanes arg) const override;
  void Scan(bool product, bool exclusive, bool reverse, int64_t lanes, int64_t outer, int64_t n, int64_t inner,
            ConstLanes x, Lanes y) const override;
  void TakeIndexed(const IndexGeometry& g, int64_t lanes, ConstLanes x, ConstLanes index, double outside,
                   Lanes y) const override;
  void PutIndexed(const IndexGeometry& g, int64_t lanes, ConstLanes index, ConstLanes values, bool accumulate,
                  int64_t poison, Lanes x) const override;
  void AveragePool(const WindowGeometry& g, bool count_pads, int64_t lanes, ConstLanes x, Lanes y) const override;
  void AveragePoolPullback(const WindowGeometry& g, bool count_pads, int64_t lanes, ConstLanes ct_y,
                           Lanes ct_x) const override;
  void Affine(const Channels& c, int64_t lanes, ConstLanes x, ConstLanes gain, ConstLanes bias, Lanes y) const override;
  void ChannelRows(const Channels& c, Terms terms, ConstLanes a, ConstLanes b, Lanes rows,
                   bool accumulate) const override;
  void Normalize(const NormGroups& g, int64_t lanes, ConstLanes x, Lanes normal, Lanes rstd, Lanes mean) const override;
  void NormalizePullback(const NormGroups& g, const Channels& c, int64_t lanes, ConstLanes normal, ConstLanes rstd,
                         ConstLanes gain, ConstLanes ct_y, Lanes ct_x) const override;
  void Softmax(bool log, int64_t lanes, int64_t outer, int64_t n, int64_t inner, ConstLanes x, Lanes y) const override;
  void SoftmaxPullback(bool log, int64_t lanes, int64_t outer, int64_t n, int64_t inner, ConstLanes y, ConstLanes ct_y,
                       Lanes ct_x) const override;
  void RoundToHalf(HalfFormat format, int64_t lanes, int64_t n, Lanes x, HalfLoss* loss) const override;
  int64_t ConvScratchElements(const WindowGeometry& g) const override;

 private:
  HostMemory memory_;
};

}  // namespace jacserve::worker
