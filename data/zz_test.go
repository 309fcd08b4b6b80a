package data
import ("testing";"os";"strings";"fmt";"strconv";"time")
func TestZZMem(t *testing.T){
 n,_:=strconv.Atoi(os.Getenv("ZZN")); if n==0 {t.Skip()}
 t0:=time.Now()
 writeBench(t, "/tmp/dd/big", n)
 b,_:=os.ReadFile("/proc/self/status")
 for _,l:=range strings.Split(string(b),"\n"){ if strings.HasPrefix(l,"VmHWM"){fmt.Println(n,l,time.Since(t0))}}
 t0=time.Now()
 ds,err:=OpenDataset("/tmp/dd/big"); if err!=nil {t.Fatal(err)}
 fmt.Println("open",time.Since(t0)); t0=time.Now()
 f,err:=ds.Find(fmt.Sprintf("bench-%d-3",n/10-1)); if err!=nil {t.Fatal(err)}
 fmt.Println("find",time.Since(t0),f.Split,len(f.Executor))
}
