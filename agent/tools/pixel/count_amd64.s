#include "textflag.h"

// func countAVX2(p *float32, n int, lo, hi float32) (matching, valid int64)
TEXT ·countAVX2(SB), NOSPLIT, $0-40
	MOVQ p+0(FP), SI
	MOVQ n+8(FP), CX
	VBROADCASTSS lo+16(FP), Y0
	VBROADCASTSS hi+20(FP), Y1
	VPCMPEQD Y2, Y2, Y2
	VPSRLD $1, Y2, Y2          // 0x7fffffff, all bits but the sign
	VPCMPEQD Y3, Y3, Y3
	VPSRLD $24, Y3, Y3
	VPSLLD $23, Y3, Y3         // 0x7f800000, infinity
	VPXOR Y4, Y4, Y4           // matching, 8 counters
	VPXOR Y5, Y5, Y5           // valid
	VPXOR Y6, Y6, Y6
	VPXOR Y7, Y7, Y7

loop:
	VMOVUPS (SI), Y8
	VMOVUPS 32(SI), Y9
	VCMPPS $29, Y0, Y8, Y10    // v >= lo, false for NaN
	VCMPPS $18, Y1, Y8, Y11    // v <= hi
	VANDPS Y11, Y10, Y10
	VPSUBD Y10, Y4, Y4         // true is -1
	VANDPS Y2, Y8, Y12
	VPCMPGTD Y12, Y3, Y12      // |v| below infinity
	VPSUBD Y12, Y5, Y5
	VCMPPS $29, Y0, Y9, Y13
	VCMPPS $18, Y1, Y9, Y14
	VANDPS Y14, Y13, Y13
	VPSUBD Y13, Y6, Y6
	VANDPS Y2, Y9, Y15
	VPCMPGTD Y15, Y3, Y15
	VPSUBD Y15, Y7, Y7
	ADDQ $64, SI
	SUBQ $16, CX
	JNZ loop

	VPADDD Y6, Y4, Y4
	VPADDD Y7, Y5, Y5
	VEXTRACTI128 $1, Y4, X8
	VEXTRACTI128 $1, Y5, X9
	VPADDD X8, X4, X4
	VPADDD X9, X5, X5
	VPSHUFD $0x4e, X4, X8
	VPSHUFD $0x4e, X5, X9
	VPADDD X8, X4, X4
	VPADDD X9, X5, X5
	VPSHUFD $0xb1, X4, X8
	VPSHUFD $0xb1, X5, X9
	VPADDD X8, X4, X4
	VPADDD X9, X5, X5
	VMOVD X4, AX
	VMOVD X5, BX
	VZEROUPPER
	MOVQ AX, matching+24(FP)
	MOVQ BX, valid+32(FP)
	RET
