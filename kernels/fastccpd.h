/* fastccpd's kernels as C functions. docs/kernels.md says what each computes; `fastccpd.kernels.address(name, dtype)` gives
 * the address of its code in a running Python process. This file has the types to call it by, for C99 and C++:
 *
 *     fastccpd_gram_f64_t gram = (fastccpd_gram_f64_t)address;
 *     int32_t status = gram(n, R, U, S);
 *
 * Arrays are dense and in C order: Y is (I, J, K); A, B, C are (I, R), (J, R), (K, R). Sizes are at least 1. Inputs are never
 * modified, outputs are overwritten and must not overlap inputs. A call is serial, and any number of threads may call at
 * once, without the GIL. It returns FASTCCPD_OK, or FASTCCPD_BAD_SIZE, having written nothing. Pointers are not checked.
 */
#ifndef FASTCCPD_H
#define FASTCCPD_H

#include <stdint.h>

#define FASTCCPD_OK 0
#define FASTCCPD_BAD_SIZE 1

/* Which MTTKRPs: a sum of these. The output of a mode that is not asked for may be NULL. */
#define FASTCCPD_MODE_0 1
#define FASTCCPD_MODE_1 2
#define FASTCCPD_MODE_2 4

#ifdef __cplusplus
extern "C" {
#endif

#define FASTCCPD_DECLARE(T, E)                                                                                         \
  /* "mttkrp": M0[i] = sum_jk Y[i,j,k] B[j] * C[k], and so on; outputs (I, R), (J, R), (K, R). */                      \
  typedef int32_t (*fastccpd_mttkrp_##E##_t)(int64_t I, int64_t J, int64_t K, int64_t R, int64_t modes, const T *Y,    \
                                             const T *A, const T *B, const T *C, T *M0, T *M1, T *M2);                 \
  /* "gram": S = U'U; (n, R) -> (R, R). */                                                                             \
  typedef int32_t (*fastccpd_gram_##E##_t)(int64_t n, int64_t R, const T *U, T *S);                                    \
  /* "hadamard_gram": Q (3, R, R), of each mode the product of the Gramians of the two others. */                      \
  typedef int32_t (*fastccpd_hadamard_gram_##E##_t)(int64_t I, int64_t J, int64_t K, int64_t R, const T *A,            \
                                                    const T *B, const T *C, T *Q);                                     \
  /* "jtj_apply": L = J'J T, J the Jacobian of [[A, B, C]]; tangents T and results L are shaped like the factors. */   \
  typedef int32_t (*fastccpd_jtj_apply_##E##_t)(int64_t I, int64_t J, int64_t K, int64_t R, const T *A, const T *B,    \
                                                const T *C, const T *TA, const T *TB, const T *TC, T *LA, T *LB,       \
                                                T *LC);                                                                \
  /* "reconstruct": out (I, J, K) = [[A, B, C]]. */                                                                    \
  typedef int32_t (*fastccpd_reconstruct_##E##_t)(int64_t I, int64_t J, int64_t K, int64_t R, const T *A, const T *B,  \
                                                  const T *C, T *out);                                                 \
  /* "residual_norm2": *total = ||Y - [[A, B, C]]||^2, in double precision. */                                         \
  typedef int32_t (*fastccpd_residual_norm2_##E##_t)(int64_t I, int64_t J, int64_t K, int64_t R, const T *Y,           \
                                                     const T *A, const T *B, const T *C, double *total);               \
  /* "operator_apply": out (m, R) = P X, P (m, n) dense. */                                                            \
  typedef int32_t (*fastccpd_operator_apply_##E##_t)(int64_t m, int64_t n, int64_t R, const T *P, const T *X, T *out);

FASTCCPD_DECLARE(double, f64)
FASTCCPD_DECLARE(float, f32)

/* "block_solve": blocks[i] x[i] = rhs[i] for n symmetric positive definite (R, R) blocks, lower triangles read. */
typedef int32_t (*fastccpd_block_solve_f64_t)(int64_t n, int64_t R, const double *blocks, const double *rhs, double *x);

#undef FASTCCPD_DECLARE

#ifdef __cplusplus
}
#endif

#endif
