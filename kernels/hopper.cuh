// What compute capability 9.0 has for products of tiles in shared memory: barriers that count bytes, copies that arrive at them, and 1-bit
// products of warpgroups (`wgmma`, only for the target sm_90a). Without a device, these are emulated.
#ifndef VCZ_HOPPER_CUH
#define VCZ_HOPPER_CUH
#include "pairs.cuh"

// Columns of a product, and the counts that each of the 128 threads of a warpgroup has of 64 units with them.
#define VCZ_WGMMA_COLUMNS 128
#define VCZ_WGMMA_COUNTS 64

#ifdef __CUDA_ARCH__

// A barrier of a phase that ends once `arrivals` threads have arrived and all expected bytes have been copied.
typedef u64 VczBarrier;

VCZ_DEVICE u32 vcz_shared(const void* at) { return (u32)__cvta_generic_to_shared(at); }

VCZ_DEVICE void vcz_barrier_init(VczBarrier* barrier, u32 arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(vcz_shared(barrier)), "r"(arrivals));
}

// Makes barriers known to the copies.
VCZ_DEVICE void vcz_barrier_fence() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }

VCZ_DEVICE void vcz_barrier_arrive(VczBarrier* barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(vcz_shared(barrier)) : "memory");
}

// Arrives, and expects so many bytes more.
VCZ_DEVICE void vcz_barrier_expect(VczBarrier* barrier, u32 bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(vcz_shared(barrier)), "r"(bytes) : "memory");
}

// Waits for the end of the phase of this parity.
VCZ_DEVICE void vcz_barrier_wait(VczBarrier* barrier, u32 parity) {
    asm volatile(
        "{\n.reg .pred done;\nWAIT: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n@done bra DONE;\nbra WAIT;\nDONE:\n}\n" ::"r"(
            vcz_shared(barrier)),
        "r"(parity)
        : "memory");
}

// Copies bytes into shared memory; both addresses and the number are multiples of 16.
VCZ_DEVICE void vcz_copy_to_shared(void* to, const void* from, u32 bytes, VczBarrier* barrier) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(vcz_shared(to)),
                 "l"(from), "r"(bytes), "r"(vcz_shared(barrier))
                 : "memory");
}

// The descriptor of units that lie in shared memory one after the other: 128-byte rows with the 128-byte swizzle, eight rows in 1,024 bytes.
VCZ_DEVICE u64 vcz_wgmma_units(const void* at) {
    return (u64)((vcz_shared(at) & 0x3ffff) >> 4) | (1ull << 16) | (64ull << 32) | (1ull << 62);
}

VCZ_DEVICE void vcz_wgmma_begin() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }

VCZ_DEVICE void vcz_wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

// Waits until at most `LEFT` of the groups committed are not done.
template <int LEFT>
VCZ_DEVICE void vcz_wgmma_wait() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(LEFT) : "memory");
}

template <int REGISTERS>
VCZ_DEVICE void vcz_more_registers() {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(REGISTERS));
}

template <int REGISTERS>
VCZ_DEVICE void vcz_fewer_registers() {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(REGISTERS));
}

#define VCZ_COUNTS_4(i) "+r"(counts[i]), "+r"(counts[i + 1]), "+r"(counts[i + 2]), "+r"(counts[i + 3])
#define VCZ_COUNTS_16(i) VCZ_COUNTS_4(i), VCZ_COUNTS_4(i + 4), VCZ_COUNTS_4(i + 8), VCZ_COUNTS_4(i + 12)

// Tells the compiler that products have written counts, which it does not know of asynchronous instructions.
VCZ_DEVICE void vcz_wgmma_written(i32 (&counts)[VCZ_WGMMA_COUNTS]) {
    asm volatile("" : VCZ_COUNTS_16(0), VCZ_COUNTS_16(16), VCZ_COUNTS_16(32), VCZ_COUNTS_16(48)::"memory");
}

// Counts the pairs of 64 units and 128 second units over 256 sites, slice `slice` of a step. Adds to `counts`, or sets it: of lane l of warp w
// of the warpgroup, element 4 k + q is of unit 16 w + l / 4 + 8 (q / 2) and second unit 8 k + 2 (l % 4) + q % 2.
VCZ_DEVICE void vcz_wgmma_b1(i32 (&counts)[VCZ_WGMMA_COUNTS], u64 units, u64 seconds, u32 slice, bool add) {
    asm volatile(
        "{\n.reg .pred add;\nsetp.ne.b32 add, %66, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n128k256.s32.b1.b1.and.popc "
        "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,"
        "%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,"
        "%62,%63}, %64, %65, add;\n}\n"
        : VCZ_COUNTS_16(0), VCZ_COUNTS_16(16), VCZ_COUNTS_16(32), VCZ_COUNTS_16(48)
        : "l"(units + 2 * slice), "l"(seconds + 2 * slice), "r"((u32)add));
}

#else

struct VczBarrier {
    u32 arrivals, left, phase;
};

VCZ_DEVICE void vcz_barrier_init(VczBarrier* barrier, u32 arrivals) { *barrier = {arrivals, arrivals, 0}; }

VCZ_DEVICE void vcz_barrier_fence() {}

VCZ_DEVICE void vcz_barrier_arrive(VczBarrier* barrier) {
    if (--barrier->left != 0) return;
    barrier->left = barrier->arrivals;
    barrier->phase ^= 1;
}

// No other thread runs until this one has made its copies and waits.
VCZ_DEVICE void vcz_barrier_expect(VczBarrier* barrier, u32) { vcz_barrier_arrive(barrier); }

VCZ_DEVICE void vcz_copy_to_shared(void* to, const void* from, u32 bytes, VczBarrier*) {
    for (u32 at = 0; at < bytes; at += 16) *(uint4*)((u8*)to + at) = *(const uint4*)((const u8*)from + at);
}

VCZ_DEVICE void vcz_barrier_wait(VczBarrier* barrier, u32 parity) {
    while (barrier->phase == parity) __nanosleep(1);
}

VCZ_DEVICE u64 vcz_wgmma_units(const void* at) { return (u64)at; }

VCZ_DEVICE void vcz_wgmma_begin() {}
VCZ_DEVICE void vcz_wgmma_commit() {}
template <int LEFT>
VCZ_DEVICE void vcz_wgmma_wait() {}
VCZ_DEVICE void vcz_wgmma_written(i32 (&)[VCZ_WGMMA_COUNTS]) {}
template <int REGISTERS>
VCZ_DEVICE void vcz_more_registers() {}
template <int REGISTERS>
VCZ_DEVICE void vcz_fewer_registers() {}

VCZ_DEVICE void vcz_wgmma_b1(i32 (&counts)[VCZ_WGMMA_COUNTS], u64 units, u64 seconds, u32 slice, bool add) {
    const u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
    for (u32 at = 0; at < VCZ_WGMMA_COUNTS; ++at) {
        const u32 unit = 16 * warp + lane / 4 + 8 * (at % 4 / 2), second = 8 * (at / 4) + 2 * (lane % 4) + at % 2;
        i32 count = add ? counts[at] : 0;
        for (u32 word = 8 * slice; word < 8 * slice + 8; ++word) {
            count += __popc(vcz_unit_word((const u32*)units, unit, word) & vcz_unit_word((const u32*)seconds, second, word));
        }
        counts[at] = count;
    }
}

#endif

#endif
