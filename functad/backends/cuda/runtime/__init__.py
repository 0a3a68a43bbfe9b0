"""Running kernels on a GPU: devices, their memory, launches, graphs, and what other libraries give and take.

Locks, in the order in which a thread takes them; whoever has one takes only such as stand behind it:

1. a turn of `once`: the GPUs are started, a Program is placed on one, cuBLAS is started;
2. `unforked`: a module is imported, a kernel is compiled (for which Numba has locks of its own);
3. `Stretch._lock`: the arguments of a plan's launches are written, its graphs recorded, changed or replayed;
4. `Cublas._making`: a handle is made, with memory of the pool;
5. `MemoryPool._lock`: memory changes hands, is asked for, or given back; other libraries may be waited for;
6. `CudaDriver._recorded`: a library's product is recorded, or all streams are waited for;
7. `Cublas._lock`, `SimulatedDriver._lock` and the simulator's own: one call.

A thread may come to one that it has: finalizers and signal handlers run between any two calls. Where it would find
things half done it is refused.
"""
