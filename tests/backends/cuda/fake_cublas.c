/* What stands for NVIDIA's cuBLAS in tests: the functions that functad calls, for memory of the host.

   Matrices lie column by column, as cuBLAS has them. It notes in which stream each product was asked for, and gives
   `status` for each call, if that is not 0, and `status_of_settings` for those that set something; `alive` counts
   handles. */

#include <complex.h>
#include <stddef.h>

int status, status_of_settings, products, fast, alive;
size_t streams[1000];

struct handle { size_t stream; void *workspace; };
static struct handle handles[64];
static int made;

int cublasCreate_v2(void **out) {
    if (made == 64 || status) return status ? status : 1;
    handles[made] = (struct handle){0, 0};
    *out = &handles[made++];
    alive++;
    return 0;
}

int cublasDestroy_v2(void *handle) {
    alive--;
    return status;
}

int cublasGetVersion_v2(void *handle, int *version) {
    *version = 120901;
    return handle ? status : 1;
}

int cublasSetStream_v2(struct handle *handle, void *stream) {
    handle->stream = (size_t)stream;
    handle->workspace = NULL; /* as the library does */
    return status ? status : status_of_settings;
}

int cublasSetWorkspace_v2(struct handle *handle, void *workspace, size_t nbytes) {
    handle->workspace = nbytes && ((size_t)workspace & 15) == 0 ? workspace : NULL;
    return status ? status : status_of_settings;
}

#define PRODUCT(T)                                                                                       \
    for (long long q = 0; q < batch; q++)                                                                \
        for (int i = 0; i < m; i++)                                                                      \
            for (int j = 0; j < n; j++) {                                                                \
                const T *A = (const T *)a + q * sa, *B = (const T *)b + q * sb;                          \
                T *C = (T *)c + q * sc + i + (long long)j * ldc, total = 0;                              \
                for (int l = 0; l < k; l++)                                                              \
                    total += A[ta ? l + (long long)i * lda : i + (long long)l * lda] *                   \
                             B[tb ? j + (long long)l * ldb : l + (long long)j * ldb];                    \
                *C = *(const T *)alpha * total + (*(const T *)beta == 0 ? 0 : *(const T *)beta * *C);    \
            }

int cublasGemmStridedBatchedEx(struct handle *handle, int ta, int tb, int m, int n, int k, const void *alpha,
                               const void *a, int atype, int lda, long long sa, const void *b, int btype, int ldb,
                               long long sb, const void *beta, void *c, int ctype, int ldc, long long sc, int batch,
                               int compute, int algorithm) {
    if (status) return status;
    if (!handle->workspace || atype != btype || btype != ctype || algorithm != -1) return 7;
    if (lda < (ta ? k : m) || ldb < (tb ? n : k) || ldc < m) return 7;
    fast = compute == 77 || compute == 75 ? compute : 0; /* TF32, bfloat16: of single precision alone */
    if (compute != (ctype == 0 || ctype == 4 ? fast ? fast : 68 : 70)) return 15;
    streams[products++] = handle->stream;
    if (ctype == 0) PRODUCT(float)
    else if (ctype == 1) PRODUCT(double)
    else if (ctype == 4) PRODUCT(float complex)
    else if (ctype == 5) PRODUCT(double complex)
    else return 15;
    return 0;
}
