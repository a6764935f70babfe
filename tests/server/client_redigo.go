// Tests redigo: the BF and CF commands called by name, pipelines, transactions, and a connection
// pool.
// usage: client_redigo PORT
package main

import (
	"fmt"
	"os"
	"reflect"
	"strings"
	"sync"

	"github.com/gomodule/redigo/redis"
)

var passed, failed int

func same(what string, found interface{}, expected interface{}) {
	if reflect.DeepEqual(found, expected) {
		passed++
		return
	}
	failed++
	fmt.Printf("WRONG %s: found %#v, expected %#v\n", what, found, expected)
}

func fails(what string, err error, words string) {
	same(what, err != nil && strings.Contains(err.Error(), words), true)
}

type asker struct{ redis.Conn }

func (a asker) number(command string, arguments ...interface{}) int {
	n, err := redis.Int(a.Do(command, arguments...))
	if err != nil {
		fmt.Printf("WRONG %s %v: %v\n", command, arguments, err)
		failed++
	}
	return n
}

func (a asker) numbers(command string, arguments ...interface{}) []int {
	n, err := redis.Ints(a.Do(command, arguments...))
	if err != nil {
		fmt.Printf("WRONG %s %v: %v\n", command, arguments, err)
		failed++
	}
	return n
}

func (a asker) text(command string, arguments ...interface{}) string {
	text, err := redis.String(a.Do(command, arguments...))
	if err != nil {
		fmt.Printf("WRONG %s %v: %v\n", command, arguments, err)
		failed++
	}
	return text
}

func bloom(c asker) {
	same("BF.RESERVE", c.text("BF.RESERVE", "k", 0.01, 1000, "EXPANSION", 2), "OK")
	_, err := c.Do("BF.RESERVE", "k", 0.01, 1000)
	fails("BF.RESERVE twice", err, "item exists")
	same("BF.ADD", c.number("BF.ADD", "k", "apple"), 1)
	same("BF.ADD again", c.number("BF.ADD", "k", "apple"), 0)
	same("BF.MADD", c.numbers("BF.MADD", "k", "apple", []byte{0, 255}), []int{0, 1})
	same("BF.EXISTS", c.number("BF.EXISTS", "k", []byte{0, 255}), 1)
	same("BF.MEXISTS", c.numbers("BF.MEXISTS", "k", "apple", "plum"), []int{1, 0})
	same("BF.INSERT", c.numbers("BF.INSERT", "i", "CAPACITY", 500, "ITEMS", "a", "b"), []int{1, 1})
	same("BF.CARD", c.number("BF.CARD", "i"), 2)
	info, err := redis.Values(c.Do("BF.INFO", "i"))
	same("BF.INFO", err == nil && len(info) == 10 && info[1] == int64(500), true)
	_, err = c.Do("BF.INFO", "missing")
	fails("BF.INFO missing", err, "not found")
	_, err = c.Do("CF.ADD", "k", "x")
	fails("CF.ADD to a BF", err, "WRONGTYPE")
}

func cuckoo(c asker) {
	same("CF.RESERVE", c.text("CF.RESERVE", "c", 1000), "OK")
	same("CF.ADD", c.number("CF.ADD", "c", "apple"), 1)
	same("CF.ADDNX", c.number("CF.ADDNX", "c", "apple"), 0)
	same("CF.COUNT", c.number("CF.COUNT", "c", "apple"), 1)
	same("CF.INSERT", c.numbers("CF.INSERT", "c", "ITEMS", "a", "b"), []int{1, 1})
	same("CF.INSERTNX", c.numbers("CF.INSERTNX", "c", "ITEMS", "a", "z"), []int{0, 1})
	same("CF.EXISTS", c.number("CF.EXISTS", "c", "apple"), 1)
	same("CF.MEXISTS", c.numbers("CF.MEXISTS", "c", "apple", "plum"), []int{1, 0})
	same("CF.DEL", c.number("CF.DEL", "c", "apple"), 1)
	same("CF.DEL again", c.number("CF.DEL", "c", "apple"), 0)
	info, err := redis.Values(c.Do("CF.INFO", "c"))
	same("CF.INFO", err == nil && len(info) == 16, true)
}

func dumps(c asker, family string) {
	from, to := family+":from", family+":to"
	items := redis.Args{}.Add(from, "ITEMS")
	names := redis.Args{}.Add(to)
	for i := 0; i < 3000; i++ {
		items = items.Add(i)
		names = names.Add(i)
	}
	_, _ = c.Do(family+".INSERT", items...)
	for iterator := 0; ; {
		piece, err := redis.Values(c.Do(family+".SCANDUMP", from, iterator))
		if err != nil {
			fmt.Printf("WRONG %s.SCANDUMP: %v\n", family, err)
			failed++
			return
		}
		iterator, _ = redis.Int(piece[0], nil)
		if iterator == 0 {
			break
		}
		same(family+".LOADCHUNK", c.text(family+".LOADCHUNK", to, iterator, piece[1]), "OK")
	}
	found := 0
	for _, n := range c.numbers(family+".MEXISTS", names...) {
		found += n
	}
	same(family+" after LOADCHUNK", found, 3000)
}

func pipelines(c asker) {
	for i := 0; i < 5000; i++ {
		_ = c.Send("BF.ADD", "p", i)
	}
	for i := 0; i < 5000; i++ {
		_ = c.Send("BF.EXISTS", "p", i)
	}
	_ = c.Flush()
	found := 0
	for i := 0; i < 10000; i++ {
		n, err := redis.Int(c.Receive())
		if err != nil {
			fmt.Printf("WRONG pipeline: %v\n", err)
			failed++
		}
		if i >= 5000 {
			found += n
		}
	}
	same("pipeline", found, 5000)
	_ = c.Send("MULTI")
	_ = c.Send("BF.ADD", "m", "x")
	_ = c.Send("BF.EXISTS", "m", "x")
	same("EXEC", c.numbers("EXEC"), []int{1, 1})
}

func pool(port string) {
	p := &redis.Pool{MaxIdle: 8, MaxActive: 8, Wait: true, Dial: func() (redis.Conn, error) {
		return redis.Dial("tcp", "127.0.0.1:"+port)
	}}
	defer p.Close()
	var wait sync.WaitGroup
	for part := 0; part < 16; part++ {
		wait.Add(1)
		go func(part int) {
			defer wait.Done()
			c := p.Get()
			defer c.Close()
			for i := 0; i < 200; i++ {
				_, _ = c.Do("BF.ADD", "pool", fmt.Sprint(part, ":", i))
			}
		}(part)
	}
	wait.Wait()
	c := asker{p.Get()}
	defer c.Close()
	found := 0
	for part := 0; part < 16; part++ {
		for i := 0; i < 200; i++ {
			found += c.number("BF.EXISTS", "pool", fmt.Sprint(part, ":", i))
		}
	}
	same("pool", found, 3200)
}

func main() {
	dialled, err := redis.Dial("tcp", "127.0.0.1:"+os.Args[1], redis.DialClientName("gopher"))
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	c := asker{dialled}
	same("CLIENT GETNAME", c.text("CLIENT", "GETNAME"), "gopher")
	bloom(c)
	cuckoo(c)
	dumps(c, "BF")
	dumps(c, "CF")
	pipelines(c)
	pool(os.Args[1])
	same("FLUSHALL", c.text("FLUSHALL"), "OK")
	same("DBSIZE", c.number("DBSIZE"), 0)
	c.Close()
	fmt.Printf("%d checks passed, %d failed\n", passed, failed)
	if failed > 0 {
		os.Exit(1)
	}
}
