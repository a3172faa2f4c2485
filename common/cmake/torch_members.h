#pragma once
// Part of the precompiled header: what would otherwise be instantiated in each file that uses it.
//
// A precompiled header keeps a list of the virtual tables that it uses, and Clang defines them at the end of each file,
// not once in the header, whatever PCH_INSTANTIATE_TEMPLATES says. LibTorch's modules, options and types derive from
// class templates, so that each file instantiated some 8,000 functions: 4.9 of the 5 seconds of a file with nothing in
// it. A local class has its virtual members instantiated at once (Sema::MarkVTableUsed). Deriving one from each of
// these classes does it in the header; no code comes of it, and a file with nothing in it takes 0.6 seconds.
//
// Another LibTorch may need other names. What is missing shows in a file with nothing in it: -ftime-trace names it
// under InstantiateFunction.

#include <torch/torch.h>

#include <iosfwd>

namespace tenfold::precompiled {

template <class Base>
void members_of(const Base& base) {
  struct Local : Base {
    explicit Local(const Base& other) : Base(other) {}
  };
  const Local local(base);
}
template <class... Bases>
struct Members {
  static void define(const Bases&... bases) { (members_of(bases), ...); }
};

inline void of_modules() {
  using namespace torch::nn;
  (void)&Members<AdaptiveLogSoftmaxWithLossImpl, BilinearImpl, Conv1dImpl, Conv2dImpl, Conv3dImpl, ConvTranspose1dImpl,
                 ConvTranspose2dImpl, ConvTranspose3dImpl, CrossMapLRN2dImpl, EmbeddingBagImpl, EmbeddingImpl, FoldImpl,
                 FractionalMaxPool2dImpl, FractionalMaxPool3dImpl, GRUCellImpl, GRUImpl, GroupNormImpl, LSTMCellImpl,
                 LSTMImpl, LayerNormImpl, LinearImpl, LocalResponseNormImpl, LogSoftmaxImpl, ModuleDictImpl,
                 MultiheadAttentionImpl, ParameterDictImpl, RNNCellImpl, RNNImpl, SequentialImpl, SoftmaxImpl,
                 SoftminImpl, ThresholdImpl, TransformerDecoderImpl, TransformerDecoderLayerImpl,
                 TransformerEncoderImpl, TransformerEncoderLayerImpl, UnflattenImpl, UnfoldImpl>::define;
}
inline void of_optimizers() {
  using namespace torch::optim;
  (void)&Members<AdagradOptions, AdamOptions, AdamWOptions, LBFGSOptions, RMSpropOptions, SGDOptions, AdagradParamState,
                 AdamParamState, AdamWParamState, LBFGSParamState, RMSpropParamState, SGDParamState>::define;
}
inline void of_data() { (void)&Members<torch::data::datasets::MNIST, torch::data::datasets::TensorDataset>::define; }
inline void of_attributes() {
  using namespace torch::jit;
  (void)&Members<
      ScalarAttributeValue<c10::complex<double>, AttributeKind::c>, ScalarAttributeValue<double, AttributeKind::f>,
      ScalarAttributeValue<long, AttributeKind::i>, ScalarAttributeValue<std::string, AttributeKind::s>,
      VectorAttributeValue<at::Tensor, AttributeKind::ts>, VectorAttributeValue<c10::TypePtr, AttributeKind::tys>,
      VectorAttributeValue<c10::complex<double>, AttributeKind::cs>, VectorAttributeValue<double, AttributeKind::fs>,
      VectorAttributeValue<long, AttributeKind::is>, VectorAttributeValue<std::string, AttributeKind::ss>>::define;
}

// What a class in between overrides is no member of the derived one any more.
inline void overridden(const torch::nn::ModuleDictImpl& dict, const torch::nn::SequentialImpl& sequence) {
  (void)dict.torch::nn::Cloneable<torch::nn::ModuleDictImpl>::clone();
  (void)sequence.torch::nn::Cloneable<torch::nn::SequentialImpl>::clone();
}
template <size_t D, class Module>
void overridden(const torch::nn::ConvNdImpl<D, Module>& module, std::ostream& out) {
  module.torch::nn::template ConvNdImpl<D, Module>::pretty_print(out);
}
inline void of_convolutions(const torch::nn::ConvTranspose1dImpl& one, const torch::nn::ConvTranspose2dImpl& two,
                            const torch::nn::ConvTranspose3dImpl& three, std::ostream& out) {
  overridden(one, out), overridden(two, out), overridden(three, out);
}

// These cannot be derived from or copied.
template <c10::TypeKind kKind, class Type>
void of_single(const c10::SingleElementType<kKind, Type>& type) {
  (void)type.c10::template SingleElementType<kKind, Type>::equals(type);
  (void)type.c10::template SingleElementType<kKind, Type>::containedTypes();
  (void)type.c10::template SingleElementType<kKind, Type>::hasFreeVariables();
}
template <c10::TypeKind kKind>
void of_enumeration(const c10::EnumerationType<kKind>& type) {
  (void)type.c10::template EnumerationType<kKind>::equals(type);
}
inline void of_types(const c10::AwaitType& await, const c10::FutureType& future, const c10::ListType& list,
                     const c10::RRefType& reference, const c10::LayoutType& layout, const c10::MemoryFormatType& format,
                     const c10::ScalarTypeType& scalar) {
  of_single(await), of_single(future), of_single(list), of_single(reference);
  of_enumeration(layout), of_enumeration(format), of_enumeration(scalar);
}

}  // namespace tenfold::precompiled
