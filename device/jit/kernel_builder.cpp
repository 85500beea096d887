#include "device/jit/kernel_builder.h"

#include <llvm/IR/Module.h>

#include <cstddef>
#include <cstring>

#include "device/jit/coverage.h"

namespace nax::jit {
namespace {

class KernelBuilder {
 public:
  KernelBuilder(const LaneProgram& lanes, HostIsa isa, llvm::Module& module, SymbolMap& symbols)
      : p_(lanes), b_(module.getContext(), isa), ir_(b_, module, symbols), module_(module) {}

  void build(const std::string& name);

 private:
  // A place in memory that a loop walks along: element f of the row at base + (f - origin) * size.
  struct Stream {
    llvm::Value* base = nullptr;
    llvm::Type* type = nullptr;  // of an element
    bool in = false, out = false;
    llvm::AllocaInst* buffer = nullptr;
    llvm::Value* direct = nullptr;  // in memory
    llvm::PHINode* ptr = nullptr;   // in memory, or the buffer
  };
  // 16 lanes of the chunk, and what the chunks before came to. Maximum and minimum of floats keep NaNs aside, in lanes of
  // their own that are folded in at the end of the chunk: the loop's chain of dependent instructions is then one vmaxps.
  struct Reduction {
    const LaneOp* op = nullptr;
    llvm::PHINode *group = nullptr, *nans = nullptr, *total = nullptr;
    llvm::Value *next = nullptr, *next_nans = nullptr;
    bool keeps_nans() const {
      return (op->reduce == ReduceFn::kMax || op->reduce == ReduceFn::kMin) && (op->lane == Lane::kF32 || op->lane == Lane::kF64);
    }
  };


  llvm::Value* i64(int64_t c) { return b_.getInt64(static_cast<uint64_t>(c)); }
  llvm::Value* load_field(llvm::Value* base, size_t offset, llvm::Type* type) {
    return b_.CreateLoad(type, b_.CreateConstGEP1_64(b_.getInt8Ty(), base, offset));
  }
  llvm::BasicBlock* block(const char* name) { return llvm::BasicBlock::Create(b_.getContext(), name, function_); }
  llvm::Value* element(llvm::Value* base, llvm::Type* type, llvm::Value* index) { return b_.CreateGEP(type, base, index); }

  void load_arguments();
  void emit_row();
  void emit_stage(int s);
  void emit_loop(const LaneStage& stage);
  void collect_streams(const LaneStage& stage);
  size_t add_stream(llvm::Value* base, llvm::Type* type, bool in, bool out);
  void emit_group(const LaneStage& stage, llvm::Value* f, llvm::Value* count);
  llvm::Constant* identity_group(const Reduction& r) {
    return llvm::ConstantVector::getSplat(llvm::ElementCount::getFixed(kGroup), ir_.identity(r.op->reduce, r.op->lane));
  }
  void copy_tail(const Stream& s, bool in, llvm::Value* count);

  LaneVector operand(const LaneOperand& o) const {
    return o.kind == LaneOperand::Kind::kScalar ? LaneVector{scalars_[static_cast<size_t>(o.id)]} : values_[static_cast<size_t>(o.id)];
  }
  void define(int16_t v, LaneVector x) {
    x.dtype = p_.values[static_cast<size_t>(v)].dtype;
    values_[static_cast<size_t>(v)] = x;
  }
  llvm::Value* row_pointer(int16_t access) { return row_base_[static_cast<size_t>(access)]; }
  DType memory_dtype(const LaneAccess& a) const;

  void emit_row_op(const LaneOp& op);
  void emit_group_op(size_t index, const LaneOp& op, llvm::Value* f, llvm::Value* count);
  void emit_apply(const LaneOp& op, llvm::Value* count);
  void emit_reduce(Reduction& r, llvm::Value* count);
  void emit_iota(const LaneOp& op, llvm::Value* f, llvm::Value* count);

  const LaneProgram& p_;
  Builder b_;
  LaneIr ir_;
  llvm::Module& module_;
  llvm::Function* function_ = nullptr;
  // Arguments and what is loaded from them at entry.
  llvm::Value *p0_ = nullptr, *p1_ = nullptr, *f0_ = nullptr, *f1_ = nullptr, *errors_ = nullptr;
  llvm::Value *row_buffers_ = nullptr, *row_buffer_bytes_ = nullptr, *accumulators_ = nullptr;
  struct Access {
    llvm::Value *base = nullptr, *index = nullptr, *row_stride = nullptr, *free_stride = nullptr;
  };
  std::vector<Access> access_;
  std::vector<llvm::Value*> scalars_;
  // Of the current row.
  llvm::Value* p_index_ = nullptr;
  std::vector<llvm::Value*> row_base_;
  std::vector<LaneVector> values_;
  // Of the current stage.
  std::vector<Stream> streams_;
  std::vector<int> stream_of_op_, stream_of_value_;
  std::vector<Reduction> reductions_;
};

// ---- Function, rows and stages ----

void KernelBuilder::build(const std::string& name) {
  llvm::Type* ptr = b_.getPtrTy();
  llvm::Type* word = b_.getInt64Ty();
  function_ = llvm::Function::Create(llvm::FunctionType::get(b_.getVoidTy(), {ptr, word, word, word, word}, false),
                                     llvm::Function::ExternalLinkage, name, module_);
  function_->setDoesNotThrow();
  p0_ = function_->getArg(1), p1_ = function_->getArg(2), f0_ = function_->getArg(3), f1_ = function_->getArg(4);

  llvm::BasicBlock* entry = block("entry");
  llvm::BasicBlock* row = block("row");
  llvm::BasicBlock* row_body = block("row_body");
  llvm::BasicBlock* exit = block("exit");
  b_.SetInsertPoint(entry);
  load_arguments();
  llvm::BasicBlock* entry_end = b_.GetInsertBlock();
  b_.CreateBr(row);

  b_.SetInsertPoint(row);
  llvm::PHINode* p = b_.CreatePHI(word, 2);
  p->addIncoming(p0_, entry_end);
  p_index_ = p;
  b_.CreateCondBr(b_.CreateICmpSLT(p, p1_), row_body, exit);
  b_.SetInsertPoint(row_body);
  emit_row();
  p->addIncoming(b_.CreateAdd(p, i64(1)), b_.GetInsertBlock());
  b_.CreateBr(row);
  b_.SetInsertPoint(exit);
  b_.CreateRetVoid();
}

void KernelBuilder::load_arguments() {
  llvm::Value* args = function_->getArg(0);
  llvm::Type* ptr = b_.getPtrTy();
  llvm::Type* word = b_.getInt64Ty();
  errors_ = load_field(args, offsetof(RowRunArgs, op_errors), ptr);
  if (p_.row_buffers > 0) {
    row_buffers_ = load_field(args, offsetof(RowRunArgs, row_buffers), ptr);
    row_buffer_bytes_ = load_field(args, offsetof(RowRunArgs, row_buffer_bytes), word);
  }
  if (!p_.accumulators.empty()) accumulators_ = load_field(args, offsetof(RowRunArgs, column_accumulators), ptr);
  llvm::Value* accesses = load_field(args, offsetof(RowRunArgs, accesses), ptr);
  access_.resize(p_.accesses.size());
  for (size_t i = 0; i < access_.size(); ++i) {
    const size_t at = i * sizeof(AccessRun);
    const bool index = p_.accesses[i].source == AccessSource::kIndex;
    access_[i].row_stride = load_field(accesses, at + offsetof(AccessRun, row_stride), word);
    if (index) {
      access_[i].index = load_field(accesses, at + offsetof(AccessRun, index), word);
      access_[i].free_stride = load_field(accesses, at + offsetof(AccessRun, free_stride), word);
    } else {
      access_[i].base = load_field(accesses, at + offsetof(AccessRun, base), ptr);
    }
  }
  if (!p_.scalars.empty()) {
    llvm::Value* cells = load_field(args, offsetof(RowRunArgs, scalars), ptr);
    for (size_t i = 0; i < p_.scalars.size(); ++i)
      scalars_.push_back(ir_.splat(load_field(cells, i * sizeof(LaneCell), ir_.scalar_type(p_.scalars[i].lane))));
  }
}

DType KernelBuilder::memory_dtype(const LaneAccess& a) const {
  if (a.source == AccessSource::kHbm) return a.dtype;
  switch (lane_of(a.dtype)) {  // accumulators are held in their lane
    case Lane::kF32: return DType::kF32;
    case Lane::kF64: return DType::kF64;
    case Lane::kI64: return DType::kI64;
    case Lane::kI32: return DType::kI32;
  }
  return a.dtype;
}

void KernelBuilder::emit_row() {
  values_.assign(p_.values.size(), {});
  row_base_.assign(access_.size(), nullptr);
  for (size_t i = 0; i < access_.size(); ++i)
    if (access_[i].base != nullptr)
      row_base_[i] = element(access_[i].base, ir_.memory_type(memory_dtype(p_.accesses[i])), b_.CreateMul(p_index_, access_[i].row_stride));
  for (size_t s = 0; s < p_.stages.size(); ++s) emit_stage(static_cast<int>(s));
}

void KernelBuilder::emit_stage(int s) {
  const LaneStage& stage = p_.stages[static_cast<size_t>(s)];
  for (int16_t i : stage.row_ops) emit_row_op(p_.ops[static_cast<size_t>(i)]);
  if (!stage.strip_ops.empty()) emit_loop(stage);
}

void KernelBuilder::emit_row_op(const LaneOp& op) {
  llvm::Value* one = i64(1);
  switch (op.kind) {
    case LaneOpKind::kLoad: {
      const DType dtype = memory_dtype(p_.accesses[static_cast<size_t>(op.access)]);
      define(op.dst, {ir_.group_from_memory(dtype, b_.CreateLoad(ir_.memory_type(dtype), row_pointer(op.access)))});
      break;
    }
    case LaneOpKind::kStore: {
      const DType dtype = memory_dtype(p_.accesses[static_cast<size_t>(op.access)]);
      llvm::Value* group = ir_.group_to_memory(dtype, operand(op.src[0]).v, false);
      b_.CreateStore(b_.CreateExtractElement(group, uint64_t{0}), row_pointer(op.access));
      break;
    }
    case LaneOpKind::kApply: emit_apply(op, one); break;
    case LaneOpKind::kConvert: define(op.dst, ir_.convert(op.lane, p_.values[static_cast<size_t>(op.dst)].dtype, operand(op.src[0]), one)); break;
    case LaneOpKind::kIota: emit_iota(op, nullptr, one); break;
    case LaneOpKind::kPartitionReduce: {
      llvm::Value* accumulator = load_field(accumulators_, static_cast<size_t>(op.accumulator) * 8, b_.getPtrTy());
      llvm::Type* type = ir_.scalar_type(op.lane);
      llvm::Value* x = b_.CreateExtractElement(operand(op.src[0]).v, uint64_t{0});
      b_.CreateStore(ir_.combine(op.reduce, op.lane, b_.CreateLoad(type, accumulator), x), accumulator);
      break;
    }
    default: break;
  }
}

void KernelBuilder::emit_apply(const LaneOp& op, llvm::Value* count) {
  LaneVector src[3];
  for (int k = 0; k < scalar_op_info(op.fn).arity; ++k) src[k] = operand(op.src[static_cast<size_t>(k)]);
  llvm::Value* errors = b_.CreateConstGEP1_64(b_.getInt8Ty(), errors_, op.op);
  define(op.dst, ir_.apply(op.fn, op.lane, p_.values[static_cast<size_t>(op.dst)].dtype, src, count, errors));
}

// start + index * step in f64 or i64, then a conversion. `f` is null for row values.
void KernelBuilder::emit_iota(const LaneOp& op, llvm::Value* f, llvm::Value* count) {
  const Access& a = access_[static_cast<size_t>(op.access)];
  llvm::Value* first = b_.CreateAdd(a.index, b_.CreateMul(p_index_, a.row_stride));
  if (f != nullptr) first = b_.CreateAdd(first, b_.CreateMul(f, a.free_stride));
  llvm::Value* index = ir_.splat(first);
  if (f != nullptr) {
    llvm::SmallVector<llvm::Constant*, kGroup> steps;
    for (unsigned l = 0; l < kGroup; ++l) steps.push_back(b_.getInt64(l));
    index = b_.CreateAdd(index, b_.CreateMul(llvm::ConstantVector::get(steps), ir_.splat(a.free_stride)));
  }
  llvm::Value *start = operand(op.src[0]).v, *step = operand(op.src[1]).v;
  llvm::Value* x = nullptr;
  if (op.lane == Lane::kF64) {
    // An index is below 2^52 in any memory there is: a signed conversion is exact.
    x = b_.CreateFAdd(start, b_.CreateFMul(b_.CreateSIToFP(index, ir_.vector_type(Lane::kF64)), step));
  } else {
    x = b_.CreateAdd(start, b_.CreateMul(index, step));
  }
  define(op.dst, ir_.convert(op.lane, p_.values[static_cast<size_t>(op.dst)].dtype, {x}, count));
}

// ---- One loop over the free elements ----

size_t KernelBuilder::add_stream(llvm::Value* base, llvm::Type* type, bool in, bool out) {
  Stream s;
  s.base = base;
  s.type = type;
  s.in = in;
  s.out = out;
  s.buffer = ir_.stack(llvm::ArrayType::get(type, kGroup));
  streams_.push_back(s);
  return streams_.size() - 1;
}

void KernelBuilder::collect_streams(const LaneStage& stage) {
  streams_.clear();
  reductions_.clear();
  stream_of_op_.assign(p_.ops.size(), -1);
  stream_of_value_.assign(p_.values.size(), -1);
  std::vector<bool> here(p_.values.size(), false);
  const auto row_buffer = [&](int16_t v, bool in) {
    const LaneValue& value = p_.values[static_cast<size_t>(v)];
    llvm::Value* base = b_.CreateGEP(b_.getInt8Ty(), row_buffers_, b_.CreateMul(row_buffer_bytes_, i64(value.row_buffer)));
    stream_of_value_[static_cast<size_t>(v)] = static_cast<int>(add_stream(base, ir_.scalar_type(value.lane), in, !in));
  };
  for (int16_t i : stage.strip_ops) {
    const LaneOp& op = p_.ops[static_cast<size_t>(i)];
    for (const LaneOperand& o : op.src) {
      if (o.kind != LaneOperand::Kind::kValue) continue;
      const LaneValue& v = p_.values[static_cast<size_t>(o.id)];
      if (v.shape == TileShape::kFull && !here[static_cast<size_t>(o.id)] && stream_of_value_[static_cast<size_t>(o.id)] < 0)
        row_buffer(o.id, true);
    }
    if (op.kind == LaneOpKind::kLoad || op.kind == LaneOpKind::kStore) {
      const LaneAccess& a = p_.accesses[static_cast<size_t>(op.access)];
      const bool store = op.kind == LaneOpKind::kStore;
      if (walks_along(a) && (store || a.inner != InnerStride::kZero))
        stream_of_op_[static_cast<size_t>(i)] =
            static_cast<int>(add_stream(row_pointer(op.access), ir_.memory_type(memory_dtype(a)), !store, store));
    } else if (op.kind == LaneOpKind::kPartitionReduce) {
      // Element f lies at [f - f0].
      llvm::Type* type = ir_.scalar_type(op.lane);
      llvm::Value* base = load_field(accumulators_, static_cast<size_t>(op.accumulator) * 8, b_.getPtrTy());
      base = element(base, type, b_.CreateNeg(f0_));
      stream_of_op_[static_cast<size_t>(i)] = static_cast<int>(add_stream(base, type, true, true));
    } else if (op.kind == LaneOpKind::kReduce) {
      Reduction r;
      r.op = &op;
      reductions_.push_back(r);
    }
    if (op.dst >= 0 && op.kind != LaneOpKind::kReduce) {
      here[static_cast<size_t>(op.dst)] = true;
      const LaneValue& v = p_.values[static_cast<size_t>(op.dst)];
      if (v.row_buffer >= 0 && v.def == i) row_buffer(op.dst, false);
    }
  }
}

void KernelBuilder::copy_tail(const Stream& s, bool in, llvm::Value* count) {
  if (!(in ? s.in : s.out)) return;
  llvm::Type* ptr = b_.getPtrTy();
  llvm::FunctionType* type = llvm::FunctionType::get(ptr, {ptr, ptr, b_.getInt64Ty()}, false);
  void* address = reinterpret_cast<void*>(static_cast<void* (*)(void*, const void*, size_t)>(&std::memcpy));
  llvm::Value* bytes = b_.CreateMul(count, i64(static_cast<int64_t>(s.type->getPrimitiveSizeInBits() / 8)));
  llvm::Value* buffer = s.buffer;
  b_.CreateCall(ir_.external("memcpy", address, type), {in ? buffer : s.direct, in ? s.direct : buffer, bytes});
}

void KernelBuilder::emit_loop(const LaneStage& stage) {
  collect_streams(stage);
  llvm::Type* word = b_.getInt64Ty();
  const bool reduces = !reductions_.empty();
  // Totals are carried over chunks, groups over the elements of a chunk. Without reductions the row is one chunk.
  llvm::BasicBlock *chunk = block("chunk"), *chunk_body = block("chunk_body"), *chunk_end = block("chunk_end"), *done = block("done");
  llvm::BasicBlock *loop = block("loop"), *head = block("head"), *tail_in = block("tail_in"), *body = block("body"),
                   *tail_out = block("tail_out"), *next = block("next");
  std::vector<llvm::Value*> starts;
  for (const Reduction& r : reductions_)
    starts.push_back(r.op->src[1].kind == LaneOperand::Kind::kNone
                         ? ir_.identity(r.op->reduce, r.op->lane)
                         : b_.CreateExtractElement(operand(r.op->src[1]).v, uint64_t{0}));
  llvm::BasicBlock* before = b_.GetInsertBlock();
  b_.CreateBr(chunk);

  b_.SetInsertPoint(chunk);
  llvm::PHINode* c = b_.CreatePHI(word, 2);
  c->addIncoming(f0_, before);
  for (size_t k = 0; k < reductions_.size(); ++k) {
    reductions_[k].total = b_.CreatePHI(ir_.scalar_type(reductions_[k].op->lane), 2);
    reductions_[k].total->addIncoming(starts[k], before);
  }
  b_.CreateCondBr(b_.CreateICmpSLT(c, f1_), chunk_body, done);

  b_.SetInsertPoint(chunk_body);
  llvm::Value* limit = f1_;
  llvm::Value* next_chunk = f1_;
  if (reduces) {
    next_chunk = b_.CreateAdd(c, i64(kRowChunk));
    limit = b_.CreateSelect(b_.CreateICmpSLT(next_chunk, f1_), next_chunk, f1_);
  }
  b_.CreateBr(loop);

  b_.SetInsertPoint(loop);
  llvm::PHINode* f = b_.CreatePHI(word, 2);
  f->addIncoming(c, chunk_body);
  for (Reduction& r : reductions_) {
    r.group = b_.CreatePHI(ir_.vector_type(r.op->lane), 2);
    r.group->addIncoming(identity_group(r), chunk_body);
    if (!r.keeps_nans()) continue;
    r.nans = b_.CreatePHI(ir_.vector_type(r.op->lane), 2);
    r.nans->addIncoming(llvm::Constant::getNullValue(r.nans->getType()), chunk_body);
  }
  b_.CreateCondBr(b_.CreateICmpSLT(f, limit), head, chunk_end);

  b_.SetInsertPoint(head);
  llvm::Value* rest = b_.CreateSub(f1_, f);
  llvm::Value* whole = b_.CreateICmpSGE(rest, i64(kGroup));
  llvm::Value* count = b_.CreateSelect(whole, i64(kGroup), rest);
  for (Stream& s : streams_) s.direct = element(s.base, s.type, f);
  b_.CreateCondBr(whole, body, tail_in);

  b_.SetInsertPoint(tail_in);
  for (const Stream& s : streams_) copy_tail(s, true, count);
  b_.CreateBr(body);

  b_.SetInsertPoint(body);
  for (Stream& s : streams_) {
    s.ptr = b_.CreatePHI(b_.getPtrTy(), 2);
    s.ptr->addIncoming(s.direct, head);
    s.ptr->addIncoming(s.buffer, tail_in);
  }
  emit_group(stage, f, count);
  b_.CreateCondBr(whole, next, tail_out);

  b_.SetInsertPoint(tail_out);
  for (const Stream& s : streams_) copy_tail(s, false, count);
  b_.CreateBr(next);

  b_.SetInsertPoint(next);
  f->addIncoming(b_.CreateAdd(f, i64(kGroup)), next);
  for (Reduction& r : reductions_) {
    r.group->addIncoming(r.next, next);
    if (r.nans != nullptr) r.nans->addIncoming(r.next_nans, next);
  }
  b_.CreateBr(loop);

  b_.SetInsertPoint(chunk_end);
  for (Reduction& r : reductions_) {
    llvm::Value* group = r.group;
    if (r.nans != nullptr) group = b_.CreateSelect(b_.CreateFCmpUNO(r.nans, r.nans), r.nans, group);
    llvm::Value* chunk_result = ir_.halving_tree(r.op->reduce, r.op->lane, group);
    r.total->addIncoming(ir_.combine(r.op->reduce, r.op->lane, r.total, chunk_result), chunk_end);
  }
  c->addIncoming(next_chunk, chunk_end);
  b_.CreateBr(chunk);

  b_.SetInsertPoint(done);
  for (const Reduction& r : reductions_) {
    const LaneValue& v = p_.values[static_cast<size_t>(r.op->dst)];
    define(r.op->dst, {ir_.round(v.dtype, ir_.splat(r.total))});
  }
}

void KernelBuilder::emit_group(const LaneStage& stage, llvm::Value* f, llvm::Value* count) {
  for (size_t v = 0; v < stream_of_value_.size(); ++v) {
    if (stream_of_value_[v] < 0) continue;
    const Stream& s = streams_[static_cast<size_t>(stream_of_value_[v])];
    if (!s.in) continue;
    const Lane lane = p_.values[v].lane;
    define(static_cast<int16_t>(v), {b_.CreateAlignedLoad(ir_.vector_type(lane), s.ptr, llvm::Align(lane_size(lane)))});
  }
  for (int16_t i : stage.strip_ops) {
    const LaneOp& op = p_.ops[static_cast<size_t>(i)];
    emit_group_op(static_cast<size_t>(i), op, f, count);
    if (op.dst < 0 || op.kind == LaneOpKind::kReduce) continue;
    const int stream = stream_of_value_[static_cast<size_t>(op.dst)];
    if (stream < 0 || !streams_[static_cast<size_t>(stream)].out) continue;
    b_.CreateAlignedStore(values_[static_cast<size_t>(op.dst)].v, streams_[static_cast<size_t>(stream)].ptr,
                          llvm::Align(lane_size(p_.values[static_cast<size_t>(op.dst)].lane)));
  }
}

// One step. Lanes past the end of the row take the identity, which leaves an accumulator that began with it as it is.
void KernelBuilder::emit_reduce(Reduction& r, llvm::Value* count) {
  llvm::SmallVector<llvm::Constant*, kGroup> numbers;
  for (unsigned l = 0; l < kGroup; ++l) numbers.push_back(b_.getInt32(l));
  llvm::Value* inside = b_.CreateICmpSLT(llvm::ConstantVector::get(numbers), ir_.splat(b_.CreateTrunc(count, b_.getInt32Ty())));
  llvm::Value* x = b_.CreateSelect(inside, operand(r.op->src[0]).v, identity_group(r));
  if (r.nans == nullptr) {
    r.next = ir_.combine(r.op->reduce, r.op->lane, r.group, x);
    return;
  }
  llvm::Value* keeps = r.op->reduce == ReduceFn::kMax ? b_.CreateFCmpOGT(r.group, x) : b_.CreateFCmpOLT(r.group, x);
  r.next = b_.CreateSelect(keeps, r.group, x);
  r.next_nans = b_.CreateSelect(b_.CreateFCmpUNO(x, x), x, r.nans);
}

void KernelBuilder::emit_group_op(size_t index, const LaneOp& op, llvm::Value* f, llvm::Value* count) {
  const Stream* stream = stream_of_op_[index] >= 0 ? &streams_[static_cast<size_t>(stream_of_op_[index])] : nullptr;
  switch (op.kind) {
    case LaneOpKind::kLoad: {
      const DType dtype = memory_dtype(p_.accesses[static_cast<size_t>(op.access)]);
      llvm::Type* type = ir_.memory_type(dtype);
      const llvm::Align align(dtype_size(dtype));
      llvm::Value* memory = stream == nullptr ? b_.CreateAlignedLoad(type, row_pointer(op.access), align)  // the same everywhere
                                              : b_.CreateAlignedLoad(llvm::FixedVectorType::get(type, kGroup), stream->ptr, align);
      define(op.dst, {ir_.group_from_memory(dtype, memory)});
      break;
    }
    case LaneOpKind::kStore: {
      const DType dtype = memory_dtype(p_.accesses[static_cast<size_t>(op.access)]);
      const LaneOperand& o = op.src[0];
      const bool rounded = o.kind == LaneOperand::Kind::kValue && p_.values[static_cast<size_t>(o.id)].dtype == dtype;
      b_.CreateAlignedStore(ir_.group_to_memory(dtype, operand(o).v, rounded), stream->ptr, llvm::Align(dtype_size(dtype)));
      break;
    }
    case LaneOpKind::kApply: emit_apply(op, count); break;
    case LaneOpKind::kConvert: define(op.dst, ir_.convert(op.lane, p_.values[static_cast<size_t>(op.dst)].dtype, operand(op.src[0]), count)); break;
    case LaneOpKind::kIota: emit_iota(op, f, count); break;
    case LaneOpKind::kReduce:
      for (Reduction& r : reductions_)
        if (r.op == &op) emit_reduce(r, count);
      break;
    case LaneOpKind::kPartitionReduce: {
      const llvm::Align align(lane_size(op.lane));
      llvm::Value* old = b_.CreateAlignedLoad(ir_.vector_type(op.lane), stream->ptr, align);
      b_.CreateAlignedStore(ir_.combine(op.reduce, op.lane, old, operand(op.src[0]).v), stream->ptr, align);
      break;
    }
    default: break;
  }
}

}  // namespace

Status build_kernel(const LaneProgram& lanes, HostIsa isa, const std::string& name, llvm::Module& module, SymbolMap& symbols,
                    std::vector<InnerStride>& inner) {
  NAX_RETURN_IF_ERROR(check_coverage(lanes));
  inner = demanded_strides(lanes);
  KernelBuilder(lanes, isa, module, symbols).build(name);
  return {};
}

}  // namespace nax::jit
